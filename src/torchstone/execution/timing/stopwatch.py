"""Laps of a closed loop on the host clock: each is sent, computed and synchronised before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchstone.execution.timing.clock import Clock


class LatencyStopwatch:
    """A Stopwatch (extend.py) that waits for the device at every lap."""

    asynchronous = False

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
