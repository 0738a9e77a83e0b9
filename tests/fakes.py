"""A clock and a device that do exactly what a test says, in microseconds of real time."""

import itertools
from collections.abc import Callable, Sequence

from torchstone.terms.batch import Batch


class FakeClock:
    """Time moves only when somebody says so; `cost_s` is what reading it takes."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.cost_s = cost_s

    def __call__(self) -> float:
        self.now_s += self.cost_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class FakeQueue:
    """A device that works through what was issued while the host goes on: steps are finished later than issued."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.free_at_s = 0.0
        self.synchronizations = 0

    def issue(self, seconds: float) -> None:
        self.free_at_s = max(self.free_at_s, self._clock.now_s) + seconds

    def synchronize(self) -> None:
        self.synchronizations += 1
        self._clock.now_s = max(self._clock.now_s, self.free_at_s)

    def stopwatch(self) -> "FakeStopwatch":
        return FakeStopwatch(self, self._clock)


class FakeStopwatch:
    """Device events: each lap is known only once the device has got there."""

    asynchronous = True

    def __init__(self, queue: FakeQueue, clock: FakeClock) -> None:
        self._queue, self._clock = queue, clock
        self._marks_s: list[float] = []

    def start(self) -> None:
        self._marks_s = [max(self._queue.free_at_s, self._clock.now_s)]

    def lap(self) -> None:
        self._marks_s.append(max(self._queue.free_at_s, self._clock.now_s))

    def recent(self, count: int) -> Sequence[float]:
        done = [m for m in self._marks_s if m <= self._clock.now_s]
        return [b - a for a, b in itertools.pairwise(done)][-count:]

    def stop(self) -> Sequence[float]:
        self._queue.synchronize()
        return [b - a for a, b in itertools.pairwise(self._marks_s)]


def source_of(
    items: int, wait_s: float = 0.0, clock: FakeClock | None = None, tokens: int | None = None
) -> Callable[[], Batch]:
    def give() -> Batch:
        if clock is not None:
            clock.sleep(wait_s)
        return Batch({}, items, tokens)

    return give
