"""The first steps choose kernels, fill caches and grow the heap: a mean that contains them is of no step at all."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


def mean_s(step: Callable[[], object], steps: int, clock: Callable[[], float]) -> float:
    """Return the mean seconds of the next steps."""
    start_s = clock()
    for _ in range(steps):
        step()
    return (clock() - start_s) / steps


def wrong(step: Callable[[], object], steps: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of a step, the very first ones included."""
    return mean_s(step, steps, clock)


def right(
    step: Callable[[], object], steps: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Return the seconds of the first step, and of a step once steps no longer get faster."""
    first_s = mean_s(step, 1, clock)
    before_s = math.inf
    while (now_s := mean_s(step, steps, clock)) < 0.99 * before_s:
        before_s = now_s
    return first_s, mean_s(step, steps, clock)
