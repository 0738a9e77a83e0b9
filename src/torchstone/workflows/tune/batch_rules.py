"""How accumulation and learning rate follow the batch size, so that another batch trains like the one before.

The effective batch is batch_size × grad_accumulation × world_size: what one optimizer step sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from torchstone.core.errors import UsageError, unknown

# sqrt: Krizhevsky (2014), "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997, keeps
#   the variance of a step; Hoffer et al. (2017), arXiv:1705.08741; for Adam derived by Malladi et al. (2022),
#   arXiv:2205.10287.
# linear: Goyal et al. (2017), "Accurate, large minibatch SGD", arXiv:1706.02677, keeps the step an item makes; for SGD.
LEARNING_RATE_RULES: Mapping[str, Callable[[float], float]] = {"sqrt": sqrt, "linear": float}
_DIGITS = 3  # more would feign a precision that no such rule has


def accumulation_for(batch_size: int, effective: int) -> int | None:
    """Return how many batches make up the effective batch; None where they do not divide it."""
    return effective // batch_size if batch_size <= effective and effective % batch_size == 0 else None


def learning_rate_for(rate: float, effective: int, new_effective: int, rule: str) -> float:
    """Return the learning rate at a new effective batch, given that of the old one, to 3 significant digits.

    The same effective batch keeps its rate, digit for digit. Raises UsageError for a rule that is none.
    """
    if rule not in LEARNING_RATE_RULES:
        raise unknown("learning rate rule", rule, LEARNING_RATE_RULES)
    if effective < 1 or new_effective < 1:
        raise UsageError(f"an effective batch of {min(effective, new_effective)}: must be 1 or more")
    if effective == new_effective:
        return rate
    return float(f"{rate * LEARNING_RATE_RULES[rule](new_effective / effective):.{_DIGITS}g}")
