"""A clock and a device that do exactly what a test says, in microseconds of real time."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence

from torchstone.core.schema.model import Batch


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
    """A device that works through what was issued while the host goes on: steps are finished later than issued.

    `depth`: so many launches may wait; who issues another waits for the first of them. `from_idle_s`: what the device
    takes to begin where it stood idle.
    """

    def __init__(self, clock: FakeClock, depth: int | None = None, from_idle_s: float = 0.0) -> None:
        self._clock, self._depth, self._from_idle_s = clock, depth, from_idle_s
        self._waiting_s: deque[float] = deque()
        self.free_at_s = 0.0
        self.synchronizations = 0

    def issue(self, seconds: float) -> None:
        while self._waiting_s and self._waiting_s[0] <= self._clock.now_s:
            self._waiting_s.popleft()
        if self._depth is not None and len(self._waiting_s) >= self._depth:
            self._clock.now_s = self._waiting_s.popleft()
        if self.free_at_s <= self._clock.now_s:
            seconds += self._from_idle_s
        self.free_at_s = max(self.free_at_s, self._clock.now_s) + seconds
        if self._depth is not None:
            self._waiting_s.append(self.free_at_s)

    def synchronize(self) -> None:
        self.synchronizations += 1
        self._clock.now_s = max(self._clock.now_s, self.free_at_s)

    def stopwatch(self) -> "FakeStopwatch":
        return FakeStopwatch(self, self._clock)


class FakeStopwatch:
    """Device events: each lap is known only once the device has got there. It holds nobody."""

    asynchronous = True
    reads = "device events"

    def __init__(self, queue: FakeQueue, clock: FakeClock) -> None:
        self._queue, self._clock = queue, clock
        self._marks_s: list[float] = []

    def start(self) -> None:
        self._marks_s = [max(self._queue.free_at_s, self._clock.now_s)]

    def lap(self) -> None:
        self._marks_s.append(max(self._queue.free_at_s, self._clock.now_s))

    def hold(self, most_s: float, *, read: bool) -> None:
        """Let the host run as far ahead as it likes."""

    def recent(self, count: int) -> Sequence[float]:
        done = [m for m in self._marks_s if m <= self._clock.now_s]
        return [b - a for a, b in itertools.pairwise(done)][-count:]

    def stop(self) -> Sequence[float]:
        self._queue.synchronize()
        return [b - a for a, b in itertools.pairwise(self._marks_s)]


class FakeEvents:
    """Makes events of a queue, as torch has them, for the stopwatch of devices. Asking them takes the host time."""

    def __init__(self, clock: FakeClock, queue: FakeQueue, elapsed_s: float = 0.0, query_s: float = 0.0) -> None:
        self.clock, self.queue, self.elapsed_s, self.query_s = clock, queue, elapsed_s, query_s
        self.read = 0

    def __call__(self) -> "FakeEvent":
        return FakeEvent(self)


class FakeEvent:
    """One of them. It cannot be read before the device has passed it."""

    def __init__(self, made_by: FakeEvents) -> None:
        self._of, self.at_s = made_by, 0.0

    def record(self) -> None:
        self.at_s = max(self._of.queue.free_at_s, self._of.clock.now_s)

    def query(self) -> bool:
        self._of.clock.sleep(self._of.query_s)
        return self.at_s <= self._of.clock.now_s

    def synchronize(self) -> None:
        self._of.clock.now_s = max(self._of.clock.now_s, self.at_s)

    def elapsed_time(self, end: "FakeEvent") -> float:
        self._of.clock.sleep(self._of.elapsed_s)
        self._of.read += 1
        if end.at_s > self._of.clock.now_s:
            raise RuntimeError("CUDA error: device not ready")
        return (end.at_s - self.at_s) * 1e3


def source_of(
    items: int, wait_s: float = 0.0, clock: FakeClock | None = None, tokens: int | None = None
) -> Callable[[], Batch]:
    def give() -> Batch:
        if clock is not None:
            clock.sleep(wait_s)
        return Batch({}, items, tokens)

    return give
