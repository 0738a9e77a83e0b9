"""A user's DataLoader rebuilt with other settings, and other batches used as they are.

A loader is made anew from what it was made of (data set, sampler, collate_fn, worker_init_fn, generator, timeout), so
that other workers, pinning and batch sizes can be measured, and its own as they are. Of a data set with an end only
whole batches are taken, as everywhere here: a Case says how many items a step has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.axis import DATALOADER_AXES, Scalar
from torchstone.core.schema.batch import Batch
from torchstone.plugins.models.py.naming import Naming


class Counted:
    """A collate_fn that also says of how many items its batch is. A class, so that a spawned worker can be sent it."""

    def __init__(self, collate_fn: Callable[[list[Any]], Any]) -> None:
        self._collate_fn = collate_fn

    def __call__(self, rows: list[Any]) -> tuple[int, Any]:
        return len(rows), self._collate_fn(rows)


class OwnLoader:
    """A DataLoader as a source of feeds. `fixed`: what it has and cannot be changed, and `why`.

    `size`: the items of its first batch, where what makes its batches is not torch's own.
    """

    def __init__(self, naming: Naming, loader: DataLoader[Any], size: int | None) -> None:
        self._naming, self._loader = naming, loader
        self.fixed: dict[str, Scalar] = {} if size is None else {"batch_size": size}
        self.why = "a batch_sampler makes its batches" if counts(loader) else "its data set gives whole batches"

    def own(self) -> Mapping[str, Scalar]:
        """Return the settings that it has itself."""
        has = {name: getattr(self._loader, name) for name in DATALOADER_AXES}
        sampler: Any = self._loader.batch_sampler
        if type(sampler) is BatchSampler:  # one short batch may be all there is
            has["batch_size"] = max(1, min(sampler.batch_size, _rows(self._loader) or sampler.batch_size))
        return {name: value for name, value in {**has, **self.fixed}.items() if value is not None}

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Streamed:
        """Return an open feed (Batches in extend.py). Raises UsageError where its batches have another size.

        Raises Unsupported where the data is less than one batch.
        """
        refuse_others(self._naming.where, self.fixed, configuration)
        workers = 0 if configuration.get("feed") == "resident" else int(configuration.get("num_workers") or 0)
        made = made_anew(self._loader, configuration, workers)
        rows = _rows(made)
        if rows is not None and rows < int(configuration.get("batch_size") or 1):
            size = configuration.get("batch_size")
            raise Unsupported(f"batch_size={size}: the data set has {rows} items, less than one batch")
        return Streamed(made, self._naming, counted=counts(made))


class OwnItems(OwnLoader):
    """A DataLoader over a data set in its own or a random order: what a training may also divide by items."""

    def __len__(self) -> int:
        return len(self._loader.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self._loader.dataset[index]

    def collate(self, rows: Sequence[Any]) -> Batch:
        """Make a batch of items; what makes batches looks for this method."""
        return batch_of(self._naming, self._loader.collate_fn(list(rows)), len(rows))


def remakable(loader: DataLoader[Any]) -> DataLoader[Any] | None:
    """Return the loader that can be made anew; None for a class that iterates in a way of its own.

    accelerate's, which a Trainer of transformers has, wraps one: what it adds is moving batches to the device.
    """
    inner: Any = getattr(loader, "base_dataloader", loader)
    of_torch = (DataLoader.__iter__, DataLoader._get_iterator)
    return inner if (type(inner).__iter__, type(inner)._get_iterator) == of_torch else None


def makes_its_batches(loader: DataLoader[Any]) -> bool:
    """Say whether torch itself puts a loader's batches together, so that they may have any size."""
    flows = isinstance(loader.dataset, IterableDataset) and loader.batch_size is not None
    return flows or type(loader.batch_sampler) is BatchSampler


def in_usual_order(loader: DataLoader[Any]) -> bool:
    """Say whether a loader takes all items of a data set in their own or in a random order."""
    of_torch = type(loader.batch_sampler) is BatchSampler and not isinstance(loader.dataset, IterableDataset)
    return of_torch and type(loader.batch_sampler.sampler) in (RandomSampler, SequentialSampler)  # type: ignore[union-attr]


def _rows(loader: DataLoader[Any]) -> int | None:
    """Return how many items an epoch has that torch puts together to batches; None where that is not known."""
    batches: Any = loader.batch_sampler
    if type(batches) is not BatchSampler or not isinstance(batches.sampler, Sized):
        return None
    return len(batches.sampler)


def counts(loader: DataLoader[Any]) -> bool:
    """Say whether the collate_fn of a loader is given a list of items, which can be counted."""
    return loader.batch_sampler is not None or loader.batch_size is not None


def made_anew(loader: DataLoader[Any], configuration: Mapping[str, Scalar], workers: int) -> DataLoader[Any]:
    """Make a loader as this one is, but for what the configuration says; of counted batches where they can be."""
    how: dict[str, Any] = {
        "collate_fn": Counted(loader.collate_fn) if counts(loader) else loader.collate_fn, "num_workers": workers,
        "worker_init_fn": loader.worker_init_fn, "generator": loader.generator,
        "pin_memory": bool(configuration.get("pin_memory")),
    }  # fmt: skip
    if workers:
        how["prefetch_factor"] = int(configuration.get("prefetch_factor") or 2)
        how["timeout"], how["multiprocessing_context"] = loader.timeout, loader.multiprocessing_context
        # Who has no processes yet would keep those that are tried from epoch to epoch.
        how["persistent_workers"] = loader.persistent_workers if loader.num_workers else True
        if hasattr(loader, "in_order"):  # from torch 2.6 on
            how["in_order"] = loader.in_order
    sampler: Any = loader.batch_sampler
    size = int(configuration.get("batch_size") or 1)
    if isinstance(loader.dataset, IterableDataset):
        whole = loader.batch_size is None
        how.update({"batch_size": None} if whole else {"batch_size": size, "drop_last": True})
    elif sampler is None:
        how.update(batch_size=None, sampler=loader.sampler)
    elif type(sampler) is BatchSampler:
        how.update(batch_size=size, sampler=sampler.sampler, drop_last=True)
    else:
        how["batch_sampler"] = sampler
    # How many workers are too many is what is measured; torch would say its opinion twice a trial.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    return DataLoader(loader.dataset, **how)


class Stream:
    """Batches that are used as they come: `fixed` is what they have, which cannot be changed, and `why`."""

    def __init__(self, naming: Naming, batches: Iterable[Any], fixed: Mapping[str, Scalar], why: str) -> None:
        self._naming, self._batches, self.fixed, self.why = naming, batches, fixed, why

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Streamed:
        """Return an open feed (Batches in extend.py). Raises UsageError where the axes say what its loader is not."""
        refuse_others(self._naming.where, self.fixed, configuration)
        return Streamed(self._batches, self._naming)


def refuse_others(where: str, fixed: Mapping[str, Scalar], configuration: Mapping[str, Scalar]) -> None:
    """Raise UsageError where the axes say another than what is fixed. Resident batches need no workers."""
    resident = configuration.get("feed") == "resident"
    other = [a for a in fixed if configuration.get(a) != fixed[a] and not (resident and a != "batch_size")]
    if other:
        has = ", ".join(f"{axis}={fixed[axis]}" for axis in other)
        words = " ".join(f"--axis {axis}={fixed[axis]}" for axis in other)
        raise UsageError(
            f"{where}: its batches are used as they come, with {has}: write {words}, or return the Dataset, so that "
            "torchstone can build the DataLoader"
        )


class Streamed:
    """A user's batches, epoch after epoch. `queue`: how many may wait in the loader before it is felt."""

    def __init__(self, source: Iterable[Any], naming: Naming, *, counted: bool = False) -> None:
        self._source, self._naming, self._counted = source, naming, counted
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
        given, before = 0, -1
        while given > before:  # what gives its batches only once has no second pass
            before = given
            for batch in self._source:
                given += 1
                items, tensors = batch if self._counted else (None, batch)
                yield batch_of(self._naming, tensors, items)
        if not given:
            raise Unsupported(f"{self._naming.where}: its data gives no whole batch of this size")

    def close(self) -> None:
        """Let the loader end its processes: they live as long as its iterator does."""
        self._batches, self._source = iter(()), ()
        self.next = self._batches.__next__


def batch_of(naming: Naming, batch: Any, items: int | None) -> Batch:
    """Return a user's batch with its tensors named; its first dimension counts the items where nothing else does."""
    tensors = naming(batch)
    mask = tensors.get("attention_mask")
    counted = items if items is not None else _rows_of(naming.where, tensors)
    return Batch(tensors, counted, int(mask.sum()) if isinstance(mask, torch.Tensor) else None)


def _rows_of(where: str, tensors: Mapping[str, Any]) -> int:
    first = next(iter(tensors.values()))
    if not isinstance(first, torch.Tensor):
        of = type(first).__name__
        raise UsageError(
            f"{where}: how many items a {of} has is not known: return a torch DataLoader, which counts them"
        )
    return int(first.shape[0]) if first.dim() else 1
