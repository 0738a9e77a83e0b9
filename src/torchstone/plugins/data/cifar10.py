"""`cifar10:PATH`: CIFAR-10, 50,000 images to train and 10,000 to test: the binary batches, folders or parquet.

Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009; the binary version has a byte of the class and
3,072 bytes of pixels per image: www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_source import ImageSource, find_parquet, find_splits
from torchstone.plugins.data._named_files import ImageSet, lines, size_of
from torchstone.plugins.protocols import DataSource

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LARGEST_BYTES = 1 << 28
_FILES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
_BANDS, _SIDE = 3, 32
_RECORD = 1 + _BANDS * _SIDE * _SIDE


def find(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return the batches in a folder, or None if there are none. Raises UsageError naming a file that is wrong."""
    absent = [name for files in _FILES.values() for name in files if not (root / name).is_file()]
    if len(absent) == sum(map(len, _FILES.values())):
        if (root / "data_batch_1").is_file():  # a pickle runs what it likes when it is read
            raise UsageError(f"{root}: the Python version, of pickles; unpack cifar-10-binary.tar.gz instead")
        return None
    if absent:
        raise UsageError(f"{root}: {', '.join(absent)} missing; unpack cifar-10-binary.tar.gz again")
    meta = root / "batches.meta.txt"
    names = tuple(filter(None, map(str.strip, lines(meta)))) if meta.is_file() else NAMES
    splits: dict[str | None, CifarBatches] = {
        split: CifarBatches([root / name for name in files], len(names)) for split, files in _FILES.items()
    }
    return ImageSet(splits, names, len(names))


class CifarBatches:
    """The images of some batch files, in their order."""

    def __init__(self, files: Sequence[Path], classes: int) -> None:
        self._files = {file: _read(file, classes) for file in files}
        self.labels = [label for data in self._files.values() for label in data[::_RECORD]]

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        """Return the file, and the number of the image in it, from 0."""
        for file, data in self._files.items():
            if index < len(data) // _RECORD:
                return f"{file}: image {index}"
            index -= len(data) // _RECORD
        raise IndexError(index)

    def stamps(self) -> Iterator[str]:
        """Yield a digest of each file."""
        for file, data in self._files.items():
            yield f"{file.name}\t{hashlib.sha256(data).hexdigest()}"

    def opened(self) -> Any:
        """Return a tensor, uint8, images × 3 × 32 × 32."""
        import torch

        records = torch.frombuffer(bytearray(b"".join(self._files.values())), dtype=torch.uint8).view(-1, _RECORD)
        return records[:, 1:].reshape(-1, _BANDS, _SIDE, _SIDE)


def _read(file: Path, classes: int) -> bytes:
    size = size_of(file, LARGEST_BYTES)
    if size % _RECORD:
        raise UsageError(f"{file}: {size} bytes are no whole number of images of {_RECORD}; unpack the archive again")
    data = file.read_bytes()
    wrong = next((n for n, label in enumerate(data[::_RECORD]) if label >= classes), None)
    if wrong is not None:
        raise UsageError(
            f"{file}: image {wrong}: label {data[wrong * _RECORD]} is out of range: "
            f"there are {classes} classes, 0 to {classes - 1}"
        )
    return data


PLUGIN: DataSource = ImageSource(
    "cifar10",
    "CIFAR-10: cifar10:PATH, the folder of data_batch_1.bin …, of train/ and test/ with class folders, or of parquet",
    {
        "data_batch_1.bin to data_batch_5.bin and test_batch.bin": find,
        "parquet files": find_parquet,
        "train/ and test/ with class folders": find_splits,
    },
    inner="cifar-10-batches-bin",
)
