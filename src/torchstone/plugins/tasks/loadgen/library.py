"""The samples that queries ask for: in host memory, in one tensor a name, so that any of them make a batch quickly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import Batch
from torchstone.core.schema.model import LoadedModel
from torchstone.plugins.tasks._batches import ExampleRows, collate

_MOST_SAMPLES, _MOST_BYTES = 1024, 256 << 20
_LEAST_SAMPLES = 8  # even of large ones, so that no cache learns a single one by heart


class Library:
    """What LoadGen calls a query sample library; at the same time the feed of the warm-up."""

    def __init__(self, whole: Batch, size: int) -> None:
        self.queue, self.turn = 0, 1
        self.unreadable = {bad.where: bad.why for bad in whole.unreadable}
        self.samples = whole.items
        self._tensors = whole.tensors
        mask = whole.tensors.get("attention_mask") if whole.tokens is not None else None
        self._tokens = None if mask is None else [int(n) for n in mask.flatten(1).sum(1).tolist()]
        turns = itertools.cycle(range(self.samples))
        self.next: Callable[[], Batch] = lambda: self.batch([next(turns) for _ in range(size)])

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return the samples of these numbers as a batch; a single one is not copied."""
        if len(numbers) == 1:
            (n,) = numbers
            tensors = {name: tensor[n : n + 1] for name, tensor in self._tensors.items()}
        else:
            rows = torch.tensor(numbers)
            tensors = {name: tensor.index_select(0, rows) for name, tensor in self._tensors.items()}
        tokens = None if self._tokens is None else sum(self._tokens[n] for n in numbers)
        return Batch(tensors, len(numbers), tokens)

    def begin_epoch(self, number: int) -> None:
        """Nothing to begin: the samples have no order of their own."""

    def close(self) -> None:
        """Nothing to end."""


def open_library(configuration: Mapping[str, Scalar], model: LoadedModel, samples: Any, seed: int) -> Library:
    """Return so many samples, drawn by the seed, as fit; without data, of the model's own example.

    Raises Unsupported where there are no single samples.
    """
    size = int(configuration["batch_size"] or 1)
    if samples is None:
        if model.example is None:
            raise Unsupported("the model has no example batch, and no data was given")
        samples = ExampleRows(model.example, _LEAST_SAMPLES)
    if hasattr(samples, "open_batches"):
        raise Unsupported("the data come in batches, and queries ask for single samples: return the Dataset")
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    stack: Callable[[Sequence[Any]], Batch] = getattr(samples, "collate", None) or collate
    one = stack([samples[order[0]]])
    bytes_each = sum(tensor.numel() * tensor.element_size() for tensor in one.tensors.values())
    most = max(_LEAST_SAMPLES, min(_MOST_SAMPLES, _MOST_BYTES // max(1, bytes_each)))
    whole = stack([samples[n] for n in order[:most]])
    if any(len(tensor) != whole.items for tensor in whole.tensors.values()):
        raise Unsupported("the tensors of a batch are not one row an item, so that no query can ask for one")
    return Library(whole, size)
