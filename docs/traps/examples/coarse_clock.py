"""A step shorter than the tick of the clock takes 0 or one tick: time many steps at once."""

from __future__ import annotations

import statistics
from collections.abc import Callable


def wrong(step: Callable[[], object], steps: int, clock: Callable[[], float]) -> float:
    """Return the median seconds of steps that are timed one by one."""
    times_s = []
    for _ in range(steps):
        start_s = clock()
        step()
        times_s.append(clock() - start_s)
    return statistics.median(times_s)


def right(step: Callable[[], object], clock: Callable[[], float], tick_s: float) -> float:
    """Return the seconds of a step, from a window of 1,000 ticks or more."""
    steps = 1
    while True:
        start_s = clock()
        for _ in range(steps):
            step()
        window_s = clock() - start_s
        if window_s >= 1000 * tick_s:
            return window_s / steps
        steps *= 2
