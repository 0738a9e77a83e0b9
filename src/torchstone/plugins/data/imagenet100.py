"""`imagenet100:PATH`: 100 classes of ImageNet with 5,000 images to validate, as Kaggle and the hub have them.

Tian, Krishnan and Isola, Contrastive Multiview Coding, ECCV 2020; the images: Deng et al., ImageNet, CVPR 2009.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_source import (
    ImageSource,
    Tree,
    assembled,
    contents,
    find_parquet,
    find_splits,
    tree,
)
from torchstone.plugins.data._named_files import ImageSet, size_of
from torchstone.plugins.protocols import DataSource

_TRAIN, _VALIDATION = re.compile(r"train(\.X\d+)?"), re.compile(r"val(\.X\d*)?")
_LARGEST_NAMES_BYTES = 1 << 20


def _parts(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
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


PLUGIN: DataSource = ImageSource(
    "imagenet100",
    "ImageNet-100: imagenet100:PATH, the folder of train.X1 … and val.X, of train/ and val/, or of parquet files",
    {
        "train.X1 to train.X4 and val.X (or train/ and val/) with class folders": _parts,
        "parquet files": find_parquet,
        "train/ and validation/ with class folders": find_splits,
    },
)
