"""Data that a user's function returns, or that `torchstone.measure` is given: a Dataset, a DataLoader, batches.

Dataset             torchstone makes the loader: batch_size, num_workers, pin_memory and prefetch_factor are its axes
DataLoader          made anew from what it was made of (own_loader.py), by the same axes. What it has itself are facts,
                    and the values of axes that nobody names; a check tells where a run has measured other ones alone
a batch sampler,    of a class of its own: made anew with other workers, while its batches stay as they are
a subclass          with an `__iter__` of its own: used as it is, and so are batches that come from anything else: axes
                    that say another batch size or other workers are refused, naming the ones that it has
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts, merged
from torchstone.plugins.models.py.items import COLLATE, COLLATE_OF_YOURS, check_items
from torchstone.plugins.models.py.naming import Naming, naming_of
from torchstone.plugins.models.py.own_loader import (
    OwnItems,
    OwnLoader,
    Stream,
    batch_of,
    counts,
    in_usual_order,
    made_anew,
    makes_its_batches,
    remakable,
)
from torchstone.plugins.models.py.returned import kind_of
from torchstone.plugins.models.py.structure import movable


class DataAtHand(msgspec.Struct):
    """A user's data, opened. `batch`: the first one as their loader gives it, `naming` how its tensors are called."""

    samples: Items | OwnLoader | Stream
    batch: Any
    naming: Naming
    facts: Facts


class Items:
    """A map-style Dataset as Samples: its items' parts by name."""

    def __init__(self, dataset: Any, naming: Naming) -> None:
        self._dataset, self._naming = dataset, naming

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._naming(self._dataset[index], tensors_only=False)


def opened(where: str, module: Any, loss: Any, data: Any) -> DataAtHand:
    """Open a user's data and look at its first batch. Raises UsageError if there is none."""
    loader = remakable(data) if isinstance(data, DataLoader) else None
    if loader is not None:
        found = _of_loader(where, module, loss, loader)
        return msgspec.structs.replace(found, facts=_facts(found.samples))
    if isinstance(data, IterableDataset):
        return _of_loader(where, module, loss, DataLoader(data, drop_last=True))
    if not isinstance(data, list | DataLoader) and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _of_items(where, module, loss, data)
    return _as_it_is(where, module, loss, data)


def _facts(samples: Items | OwnLoader | Stream) -> Facts:
    """Return what a loader has itself, and what of it cannot be changed, with the reason."""
    own = samples.own() if isinstance(samples, OwnLoader) else {}
    facts = _own(own)
    if not isinstance(samples, Items) and samples.fixed:
        facts.own_fixed, facts.own_why = tuple(samples.fixed), samples.why
    return facts


def _own(settings: Mapping[str, Scalar]) -> Facts:
    values: dict[str, Any] = {f"own_{axis}": value for axis, value in settings.items()}
    return Facts(**values)


def _of_items(where: str, module: Any, loss: Any, dataset: Any) -> DataAtHand:
    if movable(dataset) and len(dataset) and movable(dataset[0]) and not isinstance(dataset[0], torch.Tensor):
        raise UsageError(f"{where}: {kind_of(dataset)} is one batch: return the DataLoader that makes such batches")
    first = _first_items(where, dataset, default_collate)
    naming = naming_of(where, loss, first, module)
    return DataAtHand(Items(dataset, naming), first, naming, Facts())


def _first_items(where: str, dataset: Any, collate: Any, advice: str = COLLATE) -> Any:
    """Return a batch of two items: of a slow data set, a whole one takes long."""
    if not len(dataset):
        raise UsageError(f"{where}: its data set is empty")
    items = [dataset[number] for number in range(min(2, len(dataset)))]
    if collate is default_collate:
        check_items(where, dataset, items, advice)
    return collate(items)


def _of_loader(where: str, module: Any, loss: Any, loader: Any) -> DataAtHand:
    if in_usual_order(loader):
        first = _first_items(where, loader.dataset, loader.collate_fn, COLLATE_OF_YOURS)
        naming = naming_of(where, loss, first, module)
        return DataAtHand(OwnItems(naming, loader, None), first, naming, Facts())
    first, size = _first(where, made_anew(loader, {}, 0)), None
    if counts(loader):
        size, first = first
    naming = naming_of(where, loss, first, module)
    if makes_its_batches(loader):
        return DataAtHand(OwnLoader(naming, loader, None), first, naming, Facts())
    return DataAtHand(OwnLoader(naming, loader, size or batch_of(naming, first, None).items), first, naming, Facts())


def _as_it_is(where: str, module: Any, loss: Any, batches: Any) -> DataAtHand:
    if not hasattr(batches, "__iter__"):
        raise UsageError(f"{where}: no batches can be taken from {kind_of(batches)}; return a Dataset or a DataLoader")
    if iter(batches) is batches:
        raise UsageError(f"{where}: {kind_of(batches)} gives its batches only once; return a list, or a DataLoader")
    first = _first(where, batches)
    naming = naming_of(where, loss, first, module)
    fixed: dict[str, Scalar] = {
        "batch_size": batch_of(naming, first, None).items,
        "num_workers": int(getattr(batches, "num_workers", 0) or 0),
    }
    stream = Stream(naming, batches, fixed, f"{kind_of(batches)} is used as it comes")
    facts = _own(fixed) if isinstance(batches, DataLoader) else Facts()
    return DataAtHand(stream, first, naming, merged(facts, _facts(stream)))


def _first(where: str, batches: Iterable[Any]) -> Any:
    for batch in batches:
        return batch
    raise UsageError(f"{where}: its data gives no batch")
