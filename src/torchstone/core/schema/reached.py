"""What a training reached: facts of its trial, of ours and of what another tool tells. Accuracies are shares."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.fit import EpochEnded

EPOCHS = "epochs"
TRAIN, HELD_OUT, TEST = "final_train_accuracy", "final_val_accuracy", "final_test_accuracy"
_NAMES = {TRAIN: "Train accuracy", HELD_OUT: "Held-out accuracy", TEST: "Test accuracy"}


def reached(last: EpochEnded) -> dict[str, Scalar]:
    """Return the accuracies after the last epoch, as facts; None where items have no classes."""
    told, held_out = last.training, last.validation
    return {TRAIN: told.accuracy if told else None, HELD_OUT: held_out.accuracy if held_out else None}


def accuracies(facts: Mapping[str, Scalar]) -> dict[str, float]:
    """Return the accuracies that are among the facts of a trial, by fact, the training items' first."""
    found = {name: facts.get(name) for name in _NAMES}
    return {name: float(v) for name, v in found.items() if isinstance(v, int | float) and math.isfinite(v)}


def accuracy_name(fact: str) -> str:
    """Return what people call the accuracy of a fact."""
    return _NAMES[fact]
