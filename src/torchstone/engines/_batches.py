"""Where batches come from: a few of them resident on the device, or a DataLoader that works for every one."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from torchstone.errors import Unsupported
from torchstone.extend import Device
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import Batch
from torchstone.terms.model import LoadedModel

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


def collate(rows: Sequence[Mapping[str, Any]]) -> Batch:
    """Stack items to a batch; count its items, and its tokens by the attention mask."""
    tensors = default_collate(list(rows))
    mask = tensors.get("attention_mask")
    return Batch(tensors, len(rows), int(mask.sum()) if mask is not None else None)


class Resident:
    """A few batches, already on the device, in turn, for ever."""

    def __init__(self, samples: Any, configuration: Mapping[str, Scalar], device: Device, seed: int) -> None:
        size = int(configuration["batch_size"] or 1)
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
        wanted = min(_RESIDENT_BATCHES, len(order) // size)
        layout = torch.channels_last if configuration.get("channels_last") else None
        batches = []
        for n in range(wanted):
            batch = collate([samples[i] for i in order[n * size : (n + 1) * size]])
            tensors = {name: _placed(tensor, device, layout) for name, tensor in batch.tensors.items()}
            batches.append(Batch(tensors, batch.items, batch.tokens))
        self.queue, self.turn = 0, 1
        self.next: Callable[[], Batch] = itertools.cycle(batches).__next__

    def close(self) -> None:
        """Nothing to end."""


def _placed(tensor: Any, device: Device, layout: Any) -> Any:
    if layout is not None and tensor.dim() == 4:
        return tensor.to(device.torch_device, memory_format=layout)
    return tensor.to(device.torch_device)


class Loaded:
    """Batches from a DataLoader, epoch after epoch. `queue`: how many may wait in it before the loader is felt."""

    def __init__(self, samples: Any, configuration: Mapping[str, Scalar], device: Device, seed: int) -> None:
        # How many workers are too many is what is measured here; torch would say its opinion twice a trial.
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        workers = int(configuration.get("num_workers") or 0)
        prefetch = int(configuration.get("prefetch_factor") or 2) if workers else None
        self._loader = DataLoader(
            samples, batch_size=int(configuration["batch_size"] or 1), shuffle=True, drop_last=True, collate_fn=collate,
            num_workers=workers, prefetch_factor=prefetch, persistent_workers=workers > 0,
            worker_init_fn=partial(_end_with, os.getpid()),
            pin_memory=bool(configuration.get("pin_memory")), generator=torch.Generator().manual_seed(seed),
        )  # fmt: skip
        self.queue, self.turn = workers * (prefetch or 0), max(1, workers)
        self._batches: Iterator[Batch] | None = self._epochs()
        self.next: Callable[[], Batch] = self._batches.__next__

    def _epochs(self) -> Iterator[Batch]:
        while True:
            yield from self._loader

    def close(self) -> None:
        """End the loader's processes."""
        self.next = _closed
        self._batches = None
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()


def _end_with(trial: int, _worker: int) -> None:
    """Have the kernel end a loader's process with its trial: torch itself looks whether it still lives every 5 s."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != trial:  # it was killed just before
            os._exit(1)


def _closed() -> Batch:
    raise StopIteration


def open_batches(
    configuration: Mapping[str, Scalar], model: LoadedModel, samples: Any, device: Device, seed: int
) -> Resident | Loaded:
    """Return the feed that the configuration asks for; without samples, of the model's own example.

    Raises Unsupported if there is less than one batch of data.
    """
    size = int(configuration["batch_size"] or 1)
    if samples is None:
        if model.example is None:
            raise Unsupported("the model came without an example batch, and no data was named")
        samples = ExampleRows(model.example, size * _RESIDENT_BATCHES)
    if len(samples) < size:
        raise Unsupported(f"batch_size={size}: the data set has {len(samples)} items, less than one batch")
    kind = Loaded if configuration.get("feed") == "loader" else Resident
    return kind(samples, configuration, device, seed)
