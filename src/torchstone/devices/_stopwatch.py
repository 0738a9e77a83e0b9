"""Stopwatches on the host clock and on device events. `reads` says in words what a stopwatch measures with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter, perf_counter_ns
from typing import Any

_PER_NS, _PER_MS = 1e-9, 1e-3


class HostStopwatch:
    """Laps on the host clock, for a device that has finished a step when the call returns."""

    __slots__ = ("_append", "_now_ns", "_stamps_ns")

    reads = "host clock"
    asynchronous = False

    def __init__(self, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._begin()

    def start(self) -> None:
        """Begin the first lap."""
        self._begin()
        self._append(self._now_ns())

    def lap(self) -> None:
        """End a lap and begin the next."""
        self._append(self._now_ns())

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` laps in seconds."""
        return _laps(self._stamps_ns[-count - 1 :]) if count > 0 else ()

    def stop(self) -> Sequence[float]:
        """Return every lap in seconds."""
        return _laps(self._stamps_ns)

    def _begin(self) -> None:
        self._stamps_ns: list[int] = []
        self._append = self._stamps_ns.append  # bound once: a lap is two calls and nothing else


class WaitingStopwatch(HostStopwatch):
    """Laps on the host clock for a device without events: each waits for the device, and so holds the steps apart."""

    __slots__ = ("_synchronize",)

    reads = "host clock, waiting for the device at every lap (it has no timed events)"

    def __init__(self, synchronize: Callable[[], None], now_ns: Callable[[], int] = perf_counter_ns) -> None:
        super().__init__(now_ns)
        self._synchronize = synchronize

    def start(self) -> None:
        """Wait for the device, then begin the first lap."""
        self._synchronize()
        super().start()

    def lap(self) -> None:
        """Wait for the device, end a lap and begin the next."""
        self._synchronize()
        super().lap()


class EventStopwatch:
    """Laps between device events, recorded without waiting and read after the device has passed them.

    `elapsed_waits`: on this device even asking for the time between two passed events waits for everything issued
    (MPS commits and waits). There `recent` tells the host's laps of the steps that the device has finished.
    `stream`: returns the queue to record in, as `record` takes it; by default that of torch's current device.
    """

    reads = "device events"
    asynchronous = True

    def __init__(
        self,
        event: Callable[[], Any],
        synchronize: Callable[[], None],
        elapsed_waits: bool = False,
        stream: Callable[[], tuple[Any, ...]] = tuple,
    ) -> None:
        self._event, self._synchronize, self._elapsed_waits = event, synchronize, elapsed_waits
        self._stream = stream
        self._pool: list[Any] = [event() for _ in range(64)]
        self._used = 0
        self._passed_s: list[float] = []
        self._issued_s: list[float] = []

    def start(self) -> None:
        """Wait for the device, then begin the first lap."""
        self._synchronize()
        self._used = 0
        self._passed_s, self._issued_s = [], []
        self.lap()

    def lap(self) -> None:
        """Record an event from the pool; a new one is made only where a window is longer than all before it."""
        if self._used == len(self._pool):
            self._pool.append(self._event())
        self._pool[self._used].record(*self._stream())
        self._used += 1
        if self._elapsed_waits:
            self._issued_s.append(perf_counter())

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` laps the device has passed: events are asked oldest first, up to one still ahead."""
        while len(self._passed_s) + 1 < self._used and self._pool[len(self._passed_s) + 1].query():
            self._passed_s.append(self._between(len(self._passed_s)))
        return tuple(self._passed_s[-count:]) if count > 0 else ()

    def stop(self) -> Sequence[float]:
        """Wait for the device and return every lap in seconds."""
        self._synchronize()
        known = [] if self._elapsed_waits else self._passed_s
        self._passed_s = known + [self._elapsed(lap) for lap in range(len(known), self._used - 1)]
        return tuple(self._passed_s)

    def _between(self, lap: int) -> float:
        return self._issued_s[lap + 1] - self._issued_s[lap] if self._elapsed_waits else self._elapsed(lap)

    def _elapsed(self, lap: int) -> float:
        return float(self._pool[lap].elapsed_time(self._pool[lap + 1])) * _PER_MS


def _laps(stamps_ns: Sequence[int]) -> Sequence[float]:
    return tuple((after - before) * _PER_NS for before, after in pairwise(stamps_ns))
