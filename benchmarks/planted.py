"""Ten trainings, each with one planted bottleneck; `fixed=True` is the same training without it.

Used as `py:benchmarks/planted.py:slow_loader`. What a setting plants (a tiny batch, too many threads) stands in CASES.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

_WIDTH, _CLASSES, _ITEMS = 64, 10, 4096


class Plant(NamedTuple):
    """One case: the function here, its settings, which cause is right, and the heap of its process."""

    function: str
    axes: Mapping[str, Any]
    cause: str
    heap: str = "fixed"


CASES: dict[str, Plant] = {
    "slow loader": Plant("slow_loader", {"batch_size": 16, "num_workers": 0, "threads": 1}, "loader_waits"),
    "tiny batch": Plant("tiny_batch", {"batch_size": 1, "threads": 1}, "small_batch"),
    "item() per item of a step": Plant("values_asked", {"batch_size": 512, "threads": 1}, "waits"),
    "CPU-bound transform": Plant(
        "costly_transform", {"batch_size": 16, "num_workers": 0, "threads": 1}, "loader_computes"
    ),
    "thrashing": Plant("thrashing", {"batch_size": 8, "threads": 1}, "thrashing", heap="default"),
    "oversubscribed threads": Plant("many_threads", {"batch_size": 128, "threads": 16}, "threads"),
    "Python loop in forward": Plant("loop_in_forward", {"batch_size": 32, "threads": 1}, "python_loop"),
    "many small tensors": Plant("many_tensors", {"batch_size": 64, "fused": "off", "threads": 1}, "optimizer"),
}


def _network(width: int = _WIDTH, hidden: int = 256) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, _CLASSES))  # fmt: skip


def _example(rows: int, width: int = _WIDTH) -> tuple[Any, Any]:
    return torch.randn(rows, width), torch.randint(0, _CLASSES, (rows,))


def _loss(output: Any, target: Any) -> Any:
    return nn.functional.cross_entropy(output, target)


class _Items(torch.utils.data.Dataset[Any]):
    """Rows of noise, each of which takes its time: by waiting, by computing, or not at all."""

    def __init__(self, *, waits_s: float = 0.0, rounds: int = 0) -> None:
        self._rows, self._labels = _example(_ITEMS)
        self._waits_s, self._rounds = waits_s, rounds

    def __len__(self) -> int:
        return _ITEMS

    def __getitem__(self, index: int) -> Any:
        row = self._rows[index]
        if self._waits_s:
            time.sleep(self._waits_s)  # a disk far away
        if self._rounds:
            row = torch.tensor(_smoothed(row.tolist(), self._rounds))
        return row, self._labels[index]


def _smoothed(values: list[float], rounds: int) -> list[float]:
    """Average neighbours again and again, in plain Python."""
    for _ in range(rounds):
        values = [(a + b) / 2 for a, b in zip(values, [*values[1:], values[0]], strict=True)]
    return values


def slow_loader(*, fixed: bool = False) -> Any:
    """Each item waits 2 ms for a disk."""
    return _network(), _Items(waits_s=0.0 if fixed else 0.002), _loss


def costly_transform(*, fixed: bool = False) -> Any:
    """Each item is preprocessed in plain Python, about 1 ms."""
    return _network(), _Items(rounds=0 if fixed else 200), _loss


def tiny_batch() -> Any:
    """A network for which one row is no work."""
    return _network(), _example(1), _loss


def many_threads() -> Any:
    """A network that is some work; the case asks for 16 threads."""
    return _network(256, 512), _example(128, 256), _loss


def values_asked(*, fixed: bool = False) -> Any:
    """Accuracy counted item by item, as logging code does."""

    def loss(output: Any, target: Any) -> Any:
        found = output.argmax(1)
        if fixed:
            loss.right = (found == target).sum()  # type: ignore[attr-defined]  # stays where it is
        else:
            right = 0
            for answer, label in zip(found, target, strict=True):
                right += int(answer.item() == label.item())
            loss.right = right  # type: ignore[attr-defined]
        return _loss(output, target)

    return _network(hidden=32), _example(512), loss


class _Thrashing(nn.Module):
    """Large temporaries made and dropped in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1 << 21))

    def forward(self, rows: Any) -> Any:
        wide = rows[:, :1] * self.weight  # batch × 8 MiB
        for _ in range(4):
            wide = wide + 1.0
        return wide[:, :_CLASSES] + wide.mean(1, keepdim=True)


def thrashing() -> Any:
    """Buffers that glibc gives back to the kernel and faults in again at every step, unless the heap is fixed."""
    torch.manual_seed(0)
    return _Thrashing(), _example(8), _loss


class _Recurrent(nn.Module):
    """An exponential average over time: in a loop, or as one product with the matrix of its weights."""

    def __init__(self, *, loops: bool) -> None:
        super().__init__()
        self.read = nn.Linear(4, 32)
        self.head = nn.Linear(32, _CLASSES)
        self.loops = loops
        length, keep = 128, 0.9
        weights = [[(1 - keep) * keep ** (t - s) if s <= t else 0.0 for s in range(length)] for t in range(length)]
        self.register_buffer("weights", torch.tensor(weights), persistent=False)

    def forward(self, rows: Any) -> Any:
        steps = self.read(rows)  # items × time × 32
        if not self.loops:
            return self.head((self.weights @ steps).mean(1))
        state, total = torch.zeros_like(steps[:, 0]), 0.0
        for t in range(steps.shape[1]):
            state = 0.9 * state + 0.1 * steps[:, t]
            total = total + state
        return self.head(total / steps.shape[1])


def loop_in_forward(*, fixed: bool = False) -> Any:
    """A loop over 128 moments in Python."""
    torch.manual_seed(0)
    rows = torch.randn(32, 128, 4)
    return _Recurrent(loops=not fixed), (rows, torch.randint(0, _CLASSES, (32,))), _loss


class _Scattered(nn.Module):
    """One network in 2,000 small tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(0.1 * torch.randn(_WIDTH)) for _ in range(2_000))

    def forward(self, rows: Any) -> Any:
        whole = torch.stack(tuple(self.parts))
        return (rows @ whole.T)[:, :_CLASSES] / math.sqrt(_WIDTH)


def many_tensors() -> Any:
    """An update of 2,000 tensors of 64 numbers."""
    torch.manual_seed(0)
    return _Scattered(), _example(64), _loss
