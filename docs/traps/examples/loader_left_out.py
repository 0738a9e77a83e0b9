"""A loop over one batch, or over batches that were loaded in advance, does not wait for the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Batch = TypeVar("Batch")


def wrong(
    batches: Iterator[Batch],
    step: Callable[[Batch], object],
    steps: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds of a step on one batch, again and again."""
    batch = next(batches)
    start_s = clock()
    for _ in range(steps):
        step(batch)
    return (clock() - start_s) / steps


def right(
    batches: Iterator[Batch],
    step: Callable[[Batch], object],
    steps: int,
    ready: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds of a step that waits for its batch. `ready`: workers × prefetch_factor of the loader."""
    for _ in range(ready):  # these were loaded before: with ready=0 the loader looks faster than it is
        step(next(batches))
    start_s = clock()
    for _ in range(steps):
        step(next(batches))
    return (clock() - start_s) / steps
