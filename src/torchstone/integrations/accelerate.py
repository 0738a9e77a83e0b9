"""Measures the loop of an Accelerator, which has no callbacks.

    from torchstone.integrations.accelerate import measured

    with measured(model) as speed:
        …                               # the loop as it is
    print(speed)

What a step is, and what is left out: docs/programs.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchstone.api.hooked import HookedTraining


@contextmanager
def measured(model: Any, name: str = "train", **options: Any) -> Iterator[HookedTraining]:
    """Measure the steps of the block; the model as `prepare` returned it. Options are those of HookedTraining."""
    training = HookedTraining(name, **options)
    training.start(model)
    try:
        yield training
    finally:
        training.stop()
