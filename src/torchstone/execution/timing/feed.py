"""Feeds batches to a step and records how long it waited, and its items and tokens."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.core.schema.batch import Batch
from torchstone.execution.timing.clock import Clock


class Feed:
    """Calling it gives the next batch. `settle` closes the account of one step."""

    def __init__(self, source: Callable[[], Batch], clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._wait_s = 0.0
        self._items = 0
        self._tokens = 0
        self.has_tokens = False
        self.waits_s: list[float] = []
        self.items: list[int] = []
        self.tokens: list[int] = []

    def __call__(self) -> Batch:
        """Return the next batch, timing the wait for it."""
        clock = self._clock
        begin_s = clock()
        batch = self._source()
        self._wait_s += clock() - begin_s
        self._items += batch.items
        tokens = batch.tokens
        if tokens is not None:
            self._tokens += tokens
            self.has_tokens = True
        return batch

    def settle(self) -> None:
        """End a step: its wait (s), items and tokens become one entry each."""
        self.waits_s.append(self._wait_s)
        self.items.append(self._items)
        self.tokens.append(self._tokens)
        self._wait_s, self._items, self._tokens = 0.0, 0, 0
