"""The clock: seconds since some fixed moment, the same for all processes of a host."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

# CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS: never set back by NTP, shared by all processes.
system_clock: Clock = time.perf_counter


def resolution_s(clock: Clock, readings: int = 200) -> float:
    """Return the smallest step the clock was seen to make, in seconds, cost of reading it included."""
    smallest = float("inf")
    for _ in range(readings):
        begin = end = clock()
        while end == begin:
            end = clock()
        smallest = min(smallest, end - begin)
    return smallest
