"""Where batches come from: a few of them resident on the device, or a DataLoader that works for every one."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from torchstone.core.cores import end_with
from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import Batch, LoadedModel, Unreadable
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Samples, Streamable
from torchstone.plugins.tasks._settings import nhwc


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


_RESIDENT_BATCHES = 4  # distinct ones, taken in turn, so that no cache learns a single batch by heart


class ExampleRows:
    """A model's own example batch as a data set: repeated along its first dimension as often as needed."""

    def __init__(self, example: Mapping[str, Any], least: int) -> None:
        self._example = example
        self._rows = len(next(iter(example.values())))
        self._length = max(self._rows, least)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return {name: tensor[index % self._rows] for name, tensor in self._example.items()}


def collate(rows: Sequence[Mapping[str, Any] | Unreadable]) -> Batch:
    """Stack items to a batch; count its items, and its tokens by the attention mask. Unreadable ones are left out.

    Raises UsageError if none is left: what was wrong with the first is worth more than an empty batch.
    """
    unreadable = tuple(row for row in rows if isinstance(row, Unreadable))
    whole = [row for row in rows if not isinstance(row, Unreadable)]
    if not whole:
        raise UsageError(f"{unreadable[0].where}: {unreadable[0].why}; nothing else in its batch can be read either")
    tensors = default_collate(whole)
    mask = tensors.get("attention_mask")
    return Batch(tensors, len(whole), int(mask.sum()) if mask is not None else None, unreadable)


class Resident:
    """A few batches, already on the device, in turn, for ever."""

    def __init__(self, drawn: Sequence[Batch], configuration: Mapping[str, Scalar], device: Device) -> None:
        layout = torch.channels_last if nhwc(configuration) else None
        batches: list[Batch] = []
        for batch in drawn:
            tensors = {name: _copy_to_device(tensor, device, layout) for name, tensor in batch.tensors.items()}
            batches.append(Batch(tensors, batch.items, batch.tokens, batch.unreadable))
        self.queue, self.turn = 0, 1
        self.unreadable = {bad.where: bad.why for batch in batches for bad in batch.unreadable}
        self.next: Callable[[], Batch] = itertools.cycle(batches).__next__

    def begin_epoch(self, number: int) -> None:
        """Nothing to begin: the same few batches have no end."""

    def close(self) -> None:
        """Nothing to end."""


def _copy_to_device(tensor: Any, device: Device, layout: Any) -> Any:
    if layout is not None and tensor.dim() == 4:
        return tensor.to(device.torch_device, memory_format=layout)
    return tensor.to(device.torch_device)


class Loaded:
    """Batches from a DataLoader, epoch after epoch. `queue`: how many may wait in it before the loader is felt."""

    def __init__(self, samples: Any, configuration: Mapping[str, Scalar], device: Device, seed: int) -> None:
        rank, ranks = place_among_ranks()
        self._order = Order(len(samples), seed, rank, ranks, int(configuration["batch_size"] or 1))
        rows: Any = Epochs(samples, seed)
        workers, prefetch, same = _loader_settings(samples, configuration, seed)
        self._loader = DataLoader(rows, sampler=self._order, drop_last=True, persistent_workers=workers > 0, **same)
        self.queue = workers * prefetch
        self.turn = max(1, self.queue)
        self.unreadable: dict[str, str] = {}
        self._batches: Iterator[Batch] | None = self._epochs()
        self.next: Callable[[], Batch] = self._batches.__next__

    def _epochs(self) -> Iterator[Batch]:
        while True:
            for batch in self._loader:
                if batch.unreadable:
                    self.unreadable.update((bad.where, bad.why) for bad in batch.unreadable)
                yield batch

    def begin_epoch(self, number: int) -> None:
        """Begin with the items of that epoch; the loader's processes stay."""
        self._order.epoch = number
        self._batches = self._epochs()
        self.next = self._batches.__next__

    def close(self) -> None:
        """End the loader's processes."""
        self.next = _closed
        self._batches = None
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()


def _end_with(trial: int, _worker: int) -> None:
    """Have the kernel end a loader's process with its trial: torch itself looks whether it still lives every 5 s."""
    end_with(trial)


class Whole:
    """Every item of a data set once, in its order; the last batch may be short. `next` then raises StopIteration."""

    def __init__(self, samples: Any, configuration: Mapping[str, Scalar]) -> None:
        workers, prefetch, same = _loader_settings(samples, configuration, 0)
        self.queue = workers * prefetch
        self.turn = max(1, self.queue)
        self.unreadable: dict[str, str] = {}
        self.next: Callable[[], Batch] = self._next
        self._batches: Iterator[Batch] | None = iter(DataLoader(samples, shuffle=False, **same))

    def _next(self) -> Batch:
        if self._batches is None:
            raise StopIteration
        batch = next(self._batches)
        self.unreadable.update((bad.where, bad.why) for bad in batch.unreadable)
        return batch

    def begin_epoch(self, number: int) -> None:
        """Nothing to begin: it is read once."""

    def close(self) -> None:
        """End the loader's processes."""
        self._batches = None


def _loader_settings(samples: Any, configuration: Mapping[str, Scalar], seed: int) -> tuple[int, int, dict[str, Any]]:
    """Return how many processes load, how many batches each keeps ready, and what every DataLoader here is given."""
    # How many workers are too many is what is measured here; torch would say its opinion twice a trial.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    workers = int(configuration.get("num_workers") or 0)
    prefetch = int(configuration.get("prefetch_factor") or 2) if workers else None
    return (
        workers,
        prefetch or 0,
        {
            "batch_size": int(configuration["batch_size"] or 1),
            "collate_fn": collate_of(samples),
            "num_workers": workers,
            "prefetch_factor": prefetch,
            "worker_init_fn": partial(_end_with, os.getpid()),
            "pin_memory": bool(configuration.get("pin_memory")),
            "generator": torch.Generator().manual_seed(seed),
        },
    )


def _closed() -> Batch:
    raise StopIteration


def collate_of(samples: Any) -> Callable[[Sequence[Any]], Batch]:
    """Return how items become a batch: the user's own way where the data has one."""
    own: Callable[[Sequence[Any]], Batch] | None = getattr(samples, "collate", None)
    return own or collate


def _random_batches(samples: Any, size: int, seed: int) -> list[Batch]:
    """Return batches of items drawn at random; of several ranks, its part of each batch that all have together."""
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    rank, ranks = place_among_ranks()
    wanted, stack = min(_RESIDENT_BATCHES, len(order) // (size * ranks)), collate_of(samples)
    begins = [(n * ranks + rank) * size for n in range(wanted)]
    return [stack([samples[i] for i in order[begin : begin + size]]) for begin in begins]


def samples_of(model: LoadedModel, samples: Any, least: int) -> Samples | Streamable:
    """Return the data to measure with: what was given, or else the model's own example, of `least` items or more.

    Raises Unsupported where there is neither, UsageError where what was given has neither items nor batches.
    """
    if samples is None:
        if model.example is None:
            raise Unsupported("the model has no example batch, and no data was given")
        return ExampleRows(model.example, least)
    if not isinstance(samples, Streamable) and not hasattr(samples, "__getitem__"):
        raise UsageError(
            f"{type(samples).__name__} is no data: give it __len__ and __getitem__, or derive it from "
            "torchstone.extend.Streamable"
        )
    return samples  # type: ignore[no-any-return]


def open_batches(
    configuration: Mapping[str, Scalar], model: LoadedModel, samples: Any, device: Device, seed: int
) -> Batches:
    """Return the feed that the configuration asks for; without samples, of the model's own example.

    Raises Unsupported if there is less than one batch of data.
    """
    size, (_, ranks) = int(configuration["batch_size"] or 1), place_among_ranks()
    samples = samples_of(model, samples, ranks * size * _RESIDENT_BATCHES)
    if isinstance(samples, Streamable):
        if ranks > 1:
            raise Unsupported("data that come in batches cannot be shared among ranks: return the Dataset")
        return _of_stream(samples.open_batches(configuration), configuration, device)
    if len(samples) < size * ranks:
        each = f"batch_size={size}" if ranks == 1 else f"batch_size={size} on {ranks} ranks"
        raise Unsupported(f"{each}: the data set has {len(samples)} items, less than one batch")
    if configuration.get("feed") == "loader":
        return Loaded(samples, configuration, device, seed)
    return Resident(_random_batches(samples, size, seed), configuration, device)


def _of_stream(stream: Batches, configuration: Mapping[str, Scalar], device: Device) -> Batches:
    if configuration.get("feed") == "loader":
        return stream
    drawn = [stream.next() for _ in range(_RESIDENT_BATCHES)]
    stream.close()
    return Resident(drawn, configuration, device)
