"""One epoch after another: the order of the items, and their random changes, follow from seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchstone.core.schema.batch import Unreadable


def place_among_ranks() -> tuple[int, int]:
    """Return this process's rank, and how many ranks there are; (0, 1) without a process group."""
    dist = torch.distributed
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


class Order:
    """The items of one epoch after another, shuffled for each by seed and number.

    It yields `number × items + item`, so that the process that reads an item knows of which epoch it is. Of several
    ranks each has the same number of whole batches: together those of one process with a batch as large as all theirs.
    """

    def __init__(self, items: int, seed: int, rank: int = 0, ranks: int = 1, batch_size: int = 1) -> None:
        self._items, self._seed = items, seed
        self._rank, self._ranks, self._batch_size = rank, ranks, batch_size
        self.epoch = 1

    def __len__(self) -> int:
        return self._items if self._ranks == 1 else self._whole_batches * self._batch_size

    @property
    def _whole_batches(self) -> int:
        return self._items // (self._ranks * self._batch_size)

    def __iter__(self) -> Iterator[int]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        drawn = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        order = torch.randperm(self._items, generator=drawn) + epoch * self._items
        if self._ranks > 1:
            together = order[: self._ranks * len(self)].view(self._whole_batches, self._ranks, self._batch_size)
            order = together[:, self._rank].reshape(-1)
        return iter(order.tolist())


class Epochs:
    """A data set read by the numbers of an Order. Items with random changes get a generator state of their own.

    Without it their changes would hang on how many processes load and on what was read before, and a training that
    is resumed would differ from one that was not cut.
    """

    def __init__(self, samples: Any, seed: int) -> None:
        self._samples, self._items, self._seed = samples, len(samples), seed
        self._random = bool(getattr(samples, "augments", False))

    def __len__(self) -> int:
        return self._items

    def __getitem__(self, number: int) -> Mapping[str, Any] | Unreadable:
        if not self._random:
            item: Mapping[str, Any] | Unreadable = self._samples[number % self._items]
            return item
        before = torch.get_rng_state()
        torch.default_generator.manual_seed((self._seed * 1_000_003 + number) & 0xFFFF_FFFF)
        try:
            item = self._samples[number % self._items]
        finally:
            torch.set_rng_state(before)
        return item
