"""Stopwatches on the host clock and on device events. `reads` says in words what a stopwatch measures with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter, perf_counter_ns
from typing import Any

_PER_NS, _PER_MS = 1e-9, 1e-3
# Laps that may be issued: before it is known how long one takes; however long it is; and however short, as those are
# read some dozens at once.
_AHEAD, _FEWEST_AHEAD, _MOST_AHEAD = 8, 2, 512
_PARTS = 32  # of them: so many are waited for one after the other


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

    def hold(self, most_s: float, *, read: bool) -> None:
        """Do nothing: the device has finished when a lap ends."""

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
        now_s: Callable[[], float] = perf_counter,
    ) -> None:
        self._event, self._synchronize, self._elapsed_waits = event, synchronize, elapsed_waits
        self._stream, self._now_s = stream, now_s
        self._pool: list[Any] = [event() for _ in range(64)]
        self._used = 0
        self._passed_s: list[float] = []
        self._issued_s: list[float] = []
        self._reached, self._began_s, self._ahead = 0, 0.0, _AHEAD

    def start(self) -> None:
        """Wait for the device, then begin the first lap."""
        self._synchronize()
        self._used = 0
        self._passed_s, self._issued_s = [], []
        self._reached, self._began_s, self._ahead = 0, self._now_s(), _AHEAD
        self.lap()

    def lap(self) -> None:
        """Record an event from the pool; a new one is made only where a window is longer than all before it."""
        if self._used == len(self._pool):
            self._pool.append(self._event())
        self._pool[self._used].record(*self._stream())
        self._used += 1
        if self._elapsed_waits:
            self._issued_s.append(self._now_s())

    def hold(self, most_s: float, *, read: bool) -> None:
        """Wait where more laps are issued than take the device `most_s` seconds; 8 at first, two at least may be.

        It waits for one of them, or a thirtieth: the device never waits for the host, nor the host in bursts for a
        loader. Read on the way are twice as many laps as were added: enough to keep up, and never so many at once that
        the device runs out of work.
        """
        newest = self._used - 1
        if newest - self._reached < self._ahead:
            return
        before, self._reached = self._reached, newest - self._ahead + self._ahead // _PARTS + 1
        self._pool[self._reached].synchronize()
        lap_s = max((self._now_s() - self._began_s) / self._reached, _PER_NS)
        self._ahead = min(max(_FEWEST_AHEAD, int(most_s / lap_s)), _MOST_AHEAD)
        if read:
            self._read(min(self._reached, len(self._passed_s) + 2 * (self._reached - before)))

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` laps the device has passed. What came before and nobody asked for stays unread."""
        if count <= 0:
            return ()
        passed = self._newest_passed()
        first = max(0, passed - count)
        if first > len(self._passed_s):
            return tuple(self._between(lap) for lap in range(first, passed))
        self._read(passed)
        return tuple(self._passed_s[first:passed])

    def stop(self) -> Sequence[float]:
        """Wait for the device and return every lap in seconds."""
        self._synchronize()
        known = [] if self._elapsed_waits else self._passed_s
        self._passed_s = known + [self._elapsed(lap) for lap in range(len(known), self._used - 1)]
        return tuple(self._passed_s)

    def _newest_passed(self) -> int:
        """Return the number of the newest event that the device has passed: they pass in order, so few are asked."""
        low, high = max(self._reached, len(self._passed_s)), self._used - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._pool[middle].query() else (low, middle - 1)
        return low

    def _read(self, laps: int) -> None:
        """Read the times of so many of the first laps, which the device has passed."""
        self._passed_s += [self._between(lap) for lap in range(len(self._passed_s), laps)]

    def _between(self, lap: int) -> float:
        return self._issued_s[lap + 1] - self._issued_s[lap] if self._elapsed_waits else self._elapsed(lap)

    def _elapsed(self, lap: int) -> float:
        return float(self._pool[lap].elapsed_time(self._pool[lap + 1])) * _PER_MS


def _laps(stamps_ns: Sequence[int]) -> Sequence[float]:
    return tuple((after - before) * _PER_NS for before, after in pairwise(stamps_ns))
