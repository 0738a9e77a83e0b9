"""A data set that gives batches at a known pace, a compute step of a known length, and the bare loop beside both."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from torchstone.plugins.tasks._batches import collate

_EPOCH = 50_000  # batches: the end of an epoch empties the loader's queue, and none comes within a window
_LATE_S = 0.005  # what a scheduler takes at once is caught up with; time that nobody asked for a batch is not
_SPIN_S = 0.0005  # the last part of a compute step spins: a sleep alone oversleeps


class Compute:
    """A forward pass of `length_s`. `spent_s`: what all of them truly took, for a sleep oversleeps."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self.spent_s = 0.0
        self._passes = 0

    @property
    def rate(self) -> float:
        """Forward passes a second of their own time."""
        return self._passes / self.spent_s

    def forward(self, network: Any, tensors: Any) -> Any:
        """Take the time, and return the input."""
        began_s = time.perf_counter()
        if self._length_s > _SPIN_S:
            time.sleep(self._length_s - _SPIN_S)
        while time.perf_counter() - began_s < self._length_s:
            pass
        self.spent_s += time.perf_counter() - began_s
        self._passes += 1
        return tensors["input"]


class Paced:
    """Batches of one item, `rate` a second from all workers together; each paces itself against the clock.

    In the trial's own process (0 workers) the clock that it paces itself against
    stands still while the step computes: loading a batch takes its time, whenever it is asked for.
    """

    def __init__(self, rate: float, workers: int, compute: Compute | None = None) -> None:
        self._interval_s = max(workers, 1) / rate
        self._compute = compute or Compute(0.0)
        self._due_s: float | None = None
        # torch hands each tensor over by a socket, 0.3 to 2 ms on two cores, and so cannot deliver 1,000 a second;
        # where nothing computes with a batch it is a word, and the pace is what was asked for.
        self._row: dict[str, Any] = {"input": "x" if compute is None else torch.zeros(6)}

    def __len__(self) -> int:
        return _EPOCH

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return an item: what torch asks for where it does not know the next."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return a batch when it is due: torch asks for a whole one at once."""
        now_s = time.perf_counter() - self._compute.spent_s
        if self._due_s is None:
            worker = get_worker_info()  # they start together, and take even turns
            turn = (worker.id + 1) / worker.num_workers if worker is not None else 1.0
            self._due_s = now_s + turn * self._interval_s
        else:
            self._due_s = max(self._due_s + self._interval_s, now_s - _LATE_S)
        if self._due_s > now_s:
            time.sleep(self._due_s - now_s)
        return [self._row] * len(indices)


def bare_loop(rate: float, workers: int, window_s: float, compute: Compute | None = None) -> tuple[float, float]:
    """Return batches/s, and the share of the time spent waiting, of the same data set in a loop of a dozen lines."""
    samples: Any = Paced(rate, workers, compute)  # a data set need not be torch's class
    loader: Any = DataLoader(
        samples, batch_size=1, shuffle=True, collate_fn=collate, num_workers=workers,
        prefetch_factor=2 if workers else None,
    )  # fmt: skip
    source = iter(loader)
    work = (compute or Compute(0.0)).forward
    drained = 2 * workers  # what lay ready is used up
    began_s = time.perf_counter()
    while drained > 0 or time.perf_counter() - began_s < 0.15:
        work(None, next(source).tensors)
        drained -= 1
    count, waited_s, began_s = 0, 0.0, time.perf_counter()
    while time.perf_counter() - began_s < window_s or count % max(1, workers):
        asked_s = time.perf_counter()
        batch = next(source)
        waited_s += time.perf_counter() - asked_s
        work(None, batch.tensors)
        count += 1
    took_s = time.perf_counter() - began_s
    return count / took_s, waited_s / took_s
