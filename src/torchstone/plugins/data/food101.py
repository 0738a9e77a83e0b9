"""`food101:PATH`: Food-101, 75,750 photos to train and 25,250 to test, by its authors' lists; or parquet, or folders.

Bossard, Guillaumin and Van Gool, Food-101: Mining Discriminative Components with Random Forests, ECCV 2014.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_source import ImageSource, Tree, assembled, find_parquet, find_splits, tree
from torchstone.plugins.data._named_files import ImageSet, lines
from torchstone.plugins.protocols import DataSource

_LISTS = ("train", "test")


def _listed(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return the splits that meta/train.txt and meta/test.txt make of images/, or None where there is neither."""
    lists = {split: root / "meta" / f"{split}.txt" for split in _LISTS}
    absent = [file for file in lists.values() if not file.is_file()]
    if len(absent) == len(lists):
        return None
    if absent or not (root / "images").is_dir():
        raise UsageError(f"{absent[0] if absent else root / 'images'}: missing; unpack food-101.tar.gz again")
    whole = tree(str(root), "images")
    return assembled(str(root), {split: _part(file, whole) for split, file in lists.items()})


def _part(file: Path, whole: Tree) -> Tree:
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


PLUGIN: DataSource = ImageSource(
    "food101",
    "Food-101: food101:PATH, the folder of images/ and meta/, of parquet files, or of train/ and test/",
    {
        "images/ with meta/train.txt and meta/test.txt": _listed,
        "parquet files": find_parquet,
        "train/ and test/ with class folders": find_splits,
    },
    inner="food-101",
)
