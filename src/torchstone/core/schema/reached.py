"""What a training reached: facts of its trial, of ours and of what another tool tells. Accuracies are shares."""

from __future__ import annotations

import math

from torchstone.core.schema.facts import Facts

TRAIN, HELD_OUT, TEST = "final_train_accuracy", "final_val_accuracy", "final_test_accuracy"
_NAMES = {TRAIN: "Train accuracy", HELD_OUT: "Held-out accuracy", TEST: "Test accuracy"}


def accuracies(facts: Facts) -> dict[str, float]:
    """Return the accuracies that are among the facts of a trial, by fact, the training items' first."""
    found: dict[str, float | None] = {name: getattr(facts, name) for name in _NAMES}
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def accuracy_name(fact: str) -> str:
    """Return what people call the accuracy of a fact."""
    return _NAMES[fact]
