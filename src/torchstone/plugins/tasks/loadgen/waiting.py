"""Dynamic batching: which of the queries that wait become the next batch, and when it begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """Queries that wait. One thread puts them in, another takes batches out.

    A batch has at most `most` queries. It begins when it is full or when its oldest query has waited `max_wait_s`,
    whichever comes first, and not before the model is free: who takes, computes. The same rule as Triton Inference
    Server's dynamic batcher (max_batch_size, max_queue_delay_microseconds).
    """

    def __init__(self, most: int, max_wait_s: float, clock: Callable[[], float]) -> None:
        self._most, self._max_wait_s, self._clock = most, max_wait_s, clock
        self._queue: deque[tuple[float, T]] = deque()
        self._changed = Condition()
        self._over = self._flushed = False

    def put(self, query: T) -> None:
        """Add a query that has just arrived."""
        with self._changed:
            self._queue.append((self._clock(), query))
            self._changed.notify()

    def flush(self) -> None:
        """Note that no query comes any more: what waits need not wait for others."""
        with self._changed:
            self._flushed = True
            self._changed.notify()

    def end(self) -> None:
        """Note that all is over, so that who takes does not wait for ever."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def take(self) -> list[T]:
        """Wait for the next batch and return its queries, the oldest first; none when all is over."""
        with self._changed:
            while not self._queue:
                if self._over:
                    return []
                self._changed.wait()
            while len(self._queue) < self._most and not self._flushed and not self._over:
                left_s = self._queue[0][0] + self._max_wait_s - self._clock()
                if left_s <= 0.0:
                    break
                self._changed.wait(left_s)
            return [self._queue.popleft()[1] for _ in range(min(self._most, len(self._queue)))]
