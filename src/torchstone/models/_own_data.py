"""Data that a user's function returns, or that `torchstone.measure` is given: a Dataset, a DataLoader, batches.

Dataset             torchstone makes the loader: batch_size, num_workers, pin_memory and prefetch_factor are its axes
DataLoader          made anew from its data set and its collate_fn, by the same axes. Of what it had itself, batch
                    size and workers are kept as facts: a check tells where a run has measured neither
its own sampler,    used as it is, and so are batches that come from anything else: axes that say another batch size
or a subclass       or other workers are refused, naming the ones that it has
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate

from torchstone.errors import UsageError
from torchstone.models._example import Naming, naming_of
from torchstone.models._returned import kind_of
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import Batch


class OwnData(msgspec.Struct):
    """Data at hand. `batch`: the first one as the user's loader gives it, `naming` how its tensors are called."""

    samples: Items | CollatedItems | Stream
    batch: Any
    naming: Naming
    facts: Mapping[str, Scalar]


class Items:
    """A map-style Dataset as Samples: its items' parts by name."""

    def __init__(self, dataset: Any, naming: Naming) -> None:
        self._dataset, self._naming = dataset, naming

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._naming(self._dataset[index], tensors_only=False)


class CollatedItems:
    """A map-style Dataset with a `collate_fn` of the user's own, which takes the items as they are."""

    def __init__(self, dataset: Any, naming: Naming, collate_fn: Callable[[list[Any]], Any]) -> None:
        self._dataset, self._naming, self._collate_fn = dataset, naming, collate_fn

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        return self._dataset[index]

    def collate(self, rows: Sequence[Any]) -> Batch:
        """Make a batch of items; what makes batches looks for this method."""
        return _batch(self._naming, self._collate_fn(list(rows)), len(rows))


class Stream:
    """Data that comes in batches only. `fixed`: what its own loader has, which cannot be changed; None: it can."""

    def __init__(
        self,
        naming: Naming,
        source: Callable[[Mapping[str, Scalar]], Iterable[Any]],
        fixed: Mapping[str, Scalar] | None,
    ) -> None:
        self._naming, self._source, self.fixed = naming, source, fixed

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Streamed:
        """Return an open feed (Batches in extend.py). Raises UsageError where the axes say what its loader is not."""
        if self.fixed is not None:
            _refuse_others(self._naming.where, self.fixed, configuration)
        return Streamed(self._source(configuration), self._naming)


def _refuse_others(where: str, fixed: Mapping[str, Scalar], configuration: Mapping[str, Scalar]) -> None:
    """Resident batches need no workers: there only their size counts."""
    compared = ("batch_size", "num_workers") if configuration.get("feed") == "loader" else ("batch_size",)
    other = [axis for axis in compared if configuration.get(axis) != fixed[axis]]
    if other:
        has = ", ".join(f"{axis}={fixed[axis]}" for axis in other)
        words = " ".join(f"--axis {axis}={fixed[axis]}" for axis in other)
        raise UsageError(
            f"{where}: its batches are used as they come, with {has}: write {words}, or return the Dataset, of which "
            "loaders of any size are made"
        )


class Streamed:
    """A user's batches, epoch after epoch. `queue`: how many may wait in the loader before it is felt."""

    def __init__(self, source: Iterable[Any], naming: Naming) -> None:
        self._source, self._naming = source, naming
        workers = int(getattr(source, "num_workers", 0) or 0)
        self.queue = workers * int(getattr(source, "prefetch_factor", None) or 0)
        self.turn = max(1, self.queue)
        self.unreadable: Mapping[str, str] = {}
        self.begin_epoch(1)

    def begin_epoch(self, number: int) -> None:
        """Begin anew: the order is the user's."""
        self._batches: Iterator[Batch] = self._endless()
        self.next: Callable[[], Batch] = self._batches.__next__

    def _endless(self) -> Iterator[Batch]:
        some = True
        while some:
            some = False
            for batch in self._source:
                some = True
                yield _batch(self._naming, batch, None)

    def close(self) -> None:
        """Let the loader end its processes: they live as long as its iterator does."""
        self._batches = iter(())
        self.next = self._batches.__next__


def opened(where: str, module: Any, loss: Any, data: Any) -> OwnData:
    """Open a user's data and look at its first batch. Raises UsageError if there is none."""
    if isinstance(data, DataLoader):
        facts = {f"own_{axis}": value for axis, value in _settings(data).items()}
        if type(data) is DataLoader and data.batch_size is not None:
            if isinstance(data.dataset, IterableDataset):
                return _flowing(where, module, loss, data.dataset, data.collate_fn, facts)
            if type(data.sampler) in (RandomSampler, SequentialSampler):
                collate = None if data.collate_fn is default_collate else data.collate_fn
                return _items(where, module, loss, data.dataset, collate, facts)
        return _as_it_is(where, module, loss, data, facts)
    if isinstance(data, IterableDataset):
        return _flowing(where, module, loss, data, default_collate, {})
    if not isinstance(data, list) and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _items(where, module, loss, data, None, {})
    return _as_it_is(where, module, loss, data, {})


def _settings(loader: Any) -> dict[str, Scalar]:
    names = ("batch_size", "num_workers", "pin_memory", "prefetch_factor")
    return {name: getattr(loader, name) for name in names if getattr(loader, name) is not None}


def _items(where: str, module: Any, loss: Any, dataset: Any, collate: Any, facts: Mapping[str, Scalar]) -> OwnData:
    if not len(dataset):
        raise UsageError(f"{where}: its data set is empty")
    first = (collate or default_collate)([dataset[number] for number in range(min(2, len(dataset)))])
    naming = naming_of(where, loss, first, module)
    samples = Items(dataset, naming) if collate is None else CollatedItems(dataset, naming, collate)
    return OwnData(samples, first, naming, facts)


def _flowing(where: str, module: Any, loss: Any, dataset: Any, collate: Any, facts: Mapping[str, Scalar]) -> OwnData:
    """Open an IterableDataset: it gives items one after another, and a loader of any size can be made of it."""

    def load(configuration: Mapping[str, Scalar]) -> Iterable[Any]:
        workers = int(configuration.get("num_workers") or 0)
        return DataLoader(
            dataset, batch_size=int(configuration.get("batch_size") or 1), collate_fn=collate, drop_last=True,
            num_workers=workers, prefetch_factor=int(configuration.get("prefetch_factor") or 2) if workers else None,
            pin_memory=bool(configuration.get("pin_memory")),
        )  # fmt: skip

    first = _first(where, load({}))
    naming = naming_of(where, loss, first, module)
    return OwnData(Stream(naming, load, None), first, naming, facts)


def _as_it_is(where: str, module: Any, loss: Any, batches: Any, facts: Mapping[str, Scalar]) -> OwnData:
    if not hasattr(batches, "__iter__"):
        raise UsageError(f"{where}: no batches can be taken from {kind_of(batches)}; return a Dataset or a DataLoader")
    if iter(batches) is batches:
        raise UsageError(f"{where}: {kind_of(batches)} gives its batches only once; return a list, or a DataLoader")
    first = _first(where, batches)
    naming = naming_of(where, loss, first, module)
    fixed: dict[str, Scalar] = {
        "batch_size": _batch(naming, first, None).items,
        "num_workers": int(getattr(batches, "num_workers", 0) or 0),
    }
    return OwnData(Stream(naming, lambda _: batches, fixed), first, naming, facts)


def _first(where: str, batches: Iterable[Any]) -> Any:
    for batch in batches:
        return batch
    raise UsageError(f"{where}: its data gives no batch")


def _batch(naming: Naming, batch: Any, items: int | None) -> Batch:
    tensors = naming(batch)
    first = next(iter(tensors.values()))
    mask = tensors.get("attention_mask")
    counted = items if items is not None else int(first.shape[0]) if first.dim() else 1
    return Batch(tensors, counted, int(mask.sum()) if isinstance(mask, torch.Tensor) else None)
