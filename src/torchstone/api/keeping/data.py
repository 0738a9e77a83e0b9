"""Keeps what reading a caller's data changes: the random numbers of its loader, samplers and data set, and its place.

The items are not looked at: what a data set caches while it is read, it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchstone.api.keeping.contents import Undo, random_undo, undo_of


def undo_reading(data: Any) -> list[Undo]:
    """Return what puts a DataLoader, a data set or batches back as they are now, but for what has been taken.

    Of a loader and its samplers all attributes are kept as they are; of all of these, sources of random numbers are
    kept by their state. A loader with persistent workers that had none before has none afterwards.
    """
    kept = [random_undo(data)]
    for part in _drawing(data):
        kept += [undo_of(vars(part)), *map(random_undo, vars(part).values())]
    for part in (data, getattr(data, "dataset", None)):
        kept += map(random_undo, vars(part).values() if hasattr(part, "__dict__") else ())
    return [undo for undo in kept if undo is not None]


def _drawing(data: Any) -> Iterator[Any]:
    """Yield a loader and the samplers in it: what an epoch changes. A data set is none of them."""
    from torch.utils.data import DataLoader

    if not isinstance(data, DataLoader):
        return
    sampler, batches = data.sampler, data.batch_sampler
    for part in {id(one): one for one in (data, sampler, batches, getattr(batches, "sampler", None))}.values():
        if hasattr(part, "__dict__"):
            yield part
