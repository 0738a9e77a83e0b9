"""One epoch after another: the order of the items, and their random changes, follow from seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchstone.core.schema.batch import Unreadable


class Order:
    """The items of one epoch after another, shuffled for each by seed and number.

    It yields `number × items + item`, so that the process that reads an item knows of which epoch it is.
    """

    def __init__(self, items: int, seed: int) -> None:
        self._items, self._seed = items, seed
        self.epoch = 1

    def __len__(self) -> int:
        return self._items

    def __iter__(self) -> Iterator[int]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        drawn = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        return iter((torch.randperm(self._items, generator=drawn) + epoch * self._items).tolist())


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
