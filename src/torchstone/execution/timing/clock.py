"""The one seam around time: seconds since some fixed moment, the same for all processes of a host; and laps on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Clock = Callable[[], float]

# CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS: never set back by NTP, shared by all processes.
system_clock: Clock = time.perf_counter


def resolution_s(clock: Clock) -> float:
    """Return the smallest step the clock was seen to make, in seconds, cost of reading it included."""
    smallest = float("inf")
    for _ in range(200):
        begin = end = clock()
        while end == begin:
            end = clock()
        smallest = min(smallest, end - begin)
    return smallest


class LatencyStopwatch:
    """A Stopwatch (extend.py) of a closed loop: each lap is sent, computed and synchronised before the next begins."""

    asynchronous = False
    reads = "host clock, synchronised at each lap"

    def __init__(self, synchronize: Callable[[], None], clock: Clock) -> None:
        self._synchronize = synchronize
        self._clock = clock
        self._began_s = 0.0
        self._laps_s: list[float] = []

    def start(self) -> None:
        """Wait for the device, then begin the first lap."""
        self._synchronize()
        self._laps_s = []
        self._began_s = self._clock()

    def lap(self) -> None:
        """Wait for the device, end this lap and begin the next."""
        self._synchronize()
        now_s = self._clock()
        self._laps_s.append(now_s - self._began_s)
        self._began_s = self._clock()

    def hold(self, most_s: float, *, read: bool) -> None:
        """Do nothing: the device has finished when a lap ends."""

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` laps in seconds."""
        return self._laps_s[-count:]

    def stop(self) -> Sequence[float]:
        """Return every lap in seconds."""
        return self._laps_s
