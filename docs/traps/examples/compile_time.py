"""torch.compile compiles at the first batch of every new shape: in a mean over few steps that is most of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Batch = Sequence[float]  # or a tensor: len() is its number of items


def mean_s(step: Callable[[Batch], object], batches: Sequence[Batch], clock: Callable[[], float]) -> float:
    """Return the mean seconds of a step over these batches."""
    start_s = clock()
    for batch in batches:
        step(batch)
    return (clock() - start_s) / len(batches)


def wrong(
    step: Callable[[Batch], object], batches: Sequence[Batch], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of a step, compiling included."""
    return mean_s(step, batches, clock)


def right(
    step: Callable[[Batch], object], batches: Sequence[Batch], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Return the seconds until every shape is compiled, and of a step after that."""
    one_of_each = list({len(batch): batch for batch in batches}.values())
    compiling_s = len(one_of_each) * mean_s(step, one_of_each, clock)
    return compiling_s, mean_s(step, batches, clock)
