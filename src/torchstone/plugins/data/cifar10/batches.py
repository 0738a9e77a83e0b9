"""CIFAR-10 as its authors hand it out: five training batches and one to test, 10,000 images each, as Python pickles.

Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009; the format: www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_found import Found
from torchstone.plugins.data.cifar10.array_unpickler import Array, read

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = ("test_batch",)
_BANDS, _SIDE = 3, 32
_ENTRIES = _BANDS * _SIDE * _SIDE


def find(root: Path, _options: Mapping[str, Scalar]) -> Found | None:
    """Return the batches in a folder, or None if there are none.

    Raises UsageError naming the file if one is missing, is no batch, or its pickle wants to do more than hold arrays.
    """
    absent = [name for name in (*_TRAIN, *_TEST) if not (root / name).is_file()]
    if len(absent) == len(_TRAIN) + len(_TEST):
        return None
    if absent:
        raise UsageError(f"{root}: {', '.join(absent)} missing; unpack cifar-10-python.tar.gz again")
    names = _names(root / "batches.meta")
    splits: dict[str | None, Batches] = {
        "train": Batches([root / name for name in _TRAIN], len(names)),
        "test": Batches([root / name for name in _TEST], len(names)),
    }
    return Found(splits, names, len(names))


class Batches:
    """The images of some batch files, in their order."""

    def __init__(self, files: Sequence[Path], classes: int) -> None:
        self._files = files
        self._arrays: list[Array] = []
        self.labels: list[int] = []
        for file in files:
            array, labels = _batch(file, classes)
            self._arrays.append(array)
            self.labels += labels

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        """Return the file, and the number of the image in it, from 0."""
        for file, array in zip(self._files, self._arrays, strict=True):
            if index < array.shape[0]:
                return f"{file}: image {index}"
            index -= array.shape[0]
        raise IndexError(index)

    def stamps(self) -> Iterator[str]:
        """Yield digests of the pixels and of the labels."""
        for file, array in zip(self._files, self._arrays, strict=True):
            yield f"{file.name}\t{hashlib.sha256(array.data).hexdigest()}"
        yield hashlib.sha256(repr(self.labels).encode()).hexdigest()

    def opened(self) -> Any:
        """Return a tensor, uint8, images × 3 × 32 × 32, and let go of the batches."""
        import torch

        pixels = torch.empty((len(self), _BANDS, _SIDE, _SIDE), dtype=torch.uint8)
        begin = 0
        for array in self._arrays:
            images = array.shape[0]
            raw = torch.frombuffer(bytearray(array.data), dtype=torch.uint8)
            rows = raw.view(_ENTRIES, images).t() if array.fortran else raw.view(images, _ENTRIES)
            pixels[begin : begin + images] = rows.reshape(images, _BANDS, _SIDE, _SIDE)
            begin += images
            array.data = b""  # held once: in the tensor
        return pixels


def _batch(file: Path, classes: int) -> tuple[Array, list[int]]:
    content = read(file)
    array, labels = _entry(content, "data"), _entry(content, "labels")
    if not (isinstance(array, Array) and array.kind == "u1" and array.shape[1:] == (_ENTRIES,) and array.shape[0]):
        raise UsageError(f"{file}: not a batch of CIFAR-10: 'data' must be an array, uint8, images × {_ENTRIES}")
    if not (isinstance(labels, list) and len(labels) == array.shape[0] and all(type(one) is int for one in labels)):
        raise UsageError(f"{file}: not a batch of CIFAR-10: 'labels' must be a list of {array.shape[0]} whole numbers")
    wrong = next((n for n, label in enumerate(labels) if not 0 <= label < classes), None)
    if wrong is not None:
        raise UsageError(
            f"{file}: image {wrong}: label {labels[wrong]} is out of range: "
            f"there are {classes} classes, 0 to {classes - 1}"
        )
    return array, labels


def _entry(content: Any, key: str) -> Any:
    """Return an entry of a dictionary, whose keys are bytes where Python 2 wrote them."""
    return content.get(key.encode(), content.get(key)) if isinstance(content, dict) else None


def _names(file: Path) -> tuple[str, ...]:
    """Return the names of the classes that the file says; those of CIFAR-10 where it is not there."""
    if not file.is_file():
        return NAMES
    found = _entry(read(file), "label_names")
    if not (isinstance(found, list) and found and all(isinstance(name, str | bytes) for name in found)):
        raise UsageError(f"{file}: 'label_names' must be a list of texts; without the file, CIFAR-10's names are used")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in found)
