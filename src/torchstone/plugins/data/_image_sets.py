"""Data sets of images by their names, and folders and parquet files of anybody's: the layouts that each may have."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_source import (
    ImageSource,
    Layout,
    Tree,
    assembled,
    contents,
    find_folder,
    find_parquet,
    find_splits,
    tree,
)
from torchstone.plugins.data._named_files import ImageSet, lines, size_of
from torchstone.plugins.protocols import DataSource

# ── cifar10 ──────────────────────────────────────────────────────────────────────────────────────────────────

# Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009: 50,000 images to train, 10,000 to test. The
# binary version has a byte of the class and 3,072 bytes of pixels per image: www.cs.toronto.edu/~kriz/cifar.html

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LARGEST_BYTES = 1 << 28
_FILES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
_BANDS, _SIDE = 3, 32
_RECORD = 1 + _BANDS * _SIDE * _SIDE


def find_batches(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
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
        self._files = {file: _read_batch(file, classes) for file in files}
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

    def open(self) -> Any:
        """Return a tensor, uint8, images × 3 × 32 × 32."""
        import torch

        records = torch.frombuffer(bytearray(b"".join(self._files.values())), dtype=torch.uint8).view(-1, _RECORD)
        return records[:, 1:].reshape(-1, _BANDS, _SIDE, _SIDE)


def _read_batch(file: Path, classes: int) -> bytes:
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


# ── food101 ──────────────────────────────────────────────────────────────────────────────────────────────────

# `food101:PATH`: Food-101, 75,750 photos to train and 25,250 to test, by its authors' lists; or parquet, or folders.
#
# Bossard, Guillaumin and Van Gool, Food-101: Mining Discriminative Components with Random Forests, ECCV 2014.

_LISTS = ("train", "test")


def _find_lists(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return the splits that meta/train.txt and meta/test.txt make of images/, or None where there is neither."""
    lists = {split: root / "meta" / f"{split}.txt" for split in _LISTS}
    absent = [file for file in lists.values() if not file.is_file()]
    if len(absent) == len(lists):
        return None
    if absent or not (root / "images").is_dir():
        raise UsageError(f"{absent[0] if absent else root / 'images'}: missing; unpack food-101.tar.gz again")
    whole = tree(str(root), "images")
    return assembled(str(root), {split: _part_of_list(file, whole) for split, file in lists.items()})


def _part_of_list(file: Path, whole: Tree) -> Tree:
    """Return the images that a list names, a CLASS/NUMBER a line. Raises UsageError naming a line without its image."""
    there = {name: set(files) for name, files in whole.items()}
    part: dict[str, list[str]] = {}
    for row, line in enumerate(lines(file), 1):
        word = line.strip()
        name, image = word.partition("/")[0], f"images/{word}.jpg"
        if image not in there.get(name, ()):
            raise UsageError(f"{file}: row {row}: {word[:80]!r}: {image[:90]} is not there; unpack the archive again")
        part.setdefault(name, []).append(image)
    return part


# ── imagenet100 ──────────────────────────────────────────────────────────────────────────────────────────────

# `imagenet100:PATH`: 100 classes of ImageNet with 5,000 images to validate, as Kaggle and the hub have them.
#
# Tian, Krishnan and Isola, Contrastive Multiview Coding, ECCV 2020; the images: Deng et al., ImageNet, CVPR 2009.

_TRAIN, _VALIDATION = re.compile(r"train(\.X\d+)?"), re.compile(r"val(\.X\d*)?")
_LARGEST_NAMES_BYTES = 1 << 20


def _find_parts(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return train.X1, train.X2, … (or train) and val.X (or val) with their class folders, or None without either."""
    folders = contents(str(root))[1]
    train = [folder for folder in folders if _TRAIN.fullmatch(folder)]
    validation = [folder for folder in folders if _VALIDATION.fullmatch(folder)]
    if not train or not validation:
        return None
    top = str(root)
    found = assembled(top, {"train": _together(top, train), "validation": _together(top, validation)})
    return msgspec.structs.replace(found, labels=_named(root / "Labels.json", found.labels))


def _together(top: str, folders: Sequence[str]) -> Tree:
    whole: dict[str, list[str]] = {}
    for folder in folders:
        for name, files in tree(top, folder).items():
            whole.setdefault(name, []).extend(files)
    return whole


def _named(file: Path, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the English names of classes, up to their first comma, if that tells them apart; else their ids."""
    if not file.is_file():
        return ids
    size_of(file, _LARGEST_NAMES_BYTES)
    try:
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise UsageError(f"{file}: not a table of class names: {error}; take it away, and ids are shown") from error
    names = tuple(known.get(one, one).partition(",")[0].strip() for one in ids)
    return names if len(set(names)) == len(names) else ids


_PARQUET: Mapping[str, Layout] = {"parquet files": find_parquet}
_FOLDERS: Mapping[str, Layout] = {"train/ and test/ with class folders": find_splits}
PLUGINS: Mapping[str, DataSource] = {
    "images": ImageSource(
        "images",
        "your own images: images:PATH, a folder of them, of class folders, of train/ and test/, or parquet files",
        {
            "parquet files of images": find_parquet,
            "images (jpg, png, webp, bmp), in class folders, in train/, validation/, test/ or not": find_folder,
        },
    ),
    # Brain scans for a diagnosis, as Kaggle has them.
    "mri": ImageSource(
        "mri",
        "MRI scans: mri:PATH, a folder with Training/ and Testing/ (or train/ and test/), a folder for each class in "
        "them",
        {"Training/ and Testing/ (or train/ and test/) with class folders": find_splits, **_PARQUET},
    ),
    "cifar10": ImageSource(
        "cifar10",
        "CIFAR-10: cifar10:PATH, the folder of data_batch_1.bin …, of train/ and test/ with class folders, or of "
        "parquet",
        {"data_batch_1.bin to data_batch_5.bin and test_batch.bin": find_batches, **_PARQUET, **_FOLDERS},
        inner="cifar-10-batches-bin",
    ),
    "food101": ImageSource(
        "food101",
        "Food-101: food101:PATH, the folder of images/ and meta/, of parquet files, or of train/ and test/",
        {"images/ with meta/train.txt and meta/test.txt": _find_lists, **_PARQUET, **_FOLDERS},
        inner="food-101",
    ),
    "imagenet100": ImageSource(
        "imagenet100",
        "ImageNet-100: imagenet100:PATH, the folder of train.X1 … and val.X, of train/ and val/, or of parquet files",
        {
            "train.X1 to train.X4 and val.X (or train/ and val/) with class folders": _find_parts,
            **_PARQUET,
            "train/ and validation/ with class folders": find_splits,
        },
    ),
}
