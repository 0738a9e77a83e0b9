"""The files that a user named: that they are there, which is which split, what identifies them, their lines of text."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import SPLITS, DataCard


class Pile(Protocol):
    """The images of one split. `labels`: the number of the class of each; None where they have none."""

    labels: Sequence[int] | None

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """Return what a message calls an image: its file, and its row if it is one of many."""

    def stamps(self) -> Iterator[str]:
        """Yield what changes when the images do."""

    def open(self) -> Any:
        """Return what gives the raw image of an index by [index].

        That is a path or a binary stream of an encoded image, or a tensor, uint8, channels × height × width.
        """


class ImageSet(msgspec.Struct, frozen=True):
    """A data set of images. `splits`: under None for data in one piece. `labels`: class names, if it has some."""

    splits: Mapping[str | None, Any]  # of Piles
    labels: tuple[str, ...]
    classes: int | None

    def card(self) -> DataCard:
        """Return what the controller may know of it."""
        digest = hashlib.sha256()
        for pile in self.splits.values():
            for stamp in pile.stamps():
                digest.update(os.fsencode(stamp) + b"\n")
        sizes = {split: len(pile) for split, pile in self.splits.items()}
        splits = {split: size for split, size in sizes.items() if split is not None}
        return DataCard("image", sum(sizes.values()), self.classes, digest.hexdigest(), splits, self.labels)


class Files:
    """Image files, by their names relative to a folder."""

    def __init__(self, root: str, names: Sequence[str], labels: Sequence[int] | None) -> None:
        self._root = root
        self._names = names
        self.labels = labels

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> str:
        return f"{self._root}/{self._names[index]}"

    name = __getitem__

    def stamps(self) -> Iterator[str]:
        """Yield names and sizes, which stand for the contents: reading them all would take as long as an epoch."""
        for index, name in enumerate(self._names):
            yield f"{name}\t{_size(self[index])}"

    def open(self) -> Files:
        """Return the files themselves: a path is opened when it is read."""
        return self


def _size(file: str) -> int | None:
    try:
        return os.stat(file).st_size  # noqa: PTH116  a tenth of the time for a million names
    except OSError:  # a dangling link: the reading of it says what is wrong
        return None


LARGEST_TABLE_BYTES = 1 << 30  # a table is held in memory
LONGEST_LINE_BYTES = 1 << 20
_BLOCK_BYTES, _BLOCKS = 1 << 20, 256
_SPLIT_OF = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
# train, train-00000-of-00002, and with the digest that older files of the hub have at their end
_NAME = re.compile(r"([a-z]+)(?:[-_.]\d{1,6}(?:-of-(\d{1,6}))?(?:-[0-9a-f]{8,})?)?")


def split_of(word: str) -> str | None:
    """Return the split that a word stands for: train, training, validation, valid, val, dev, test, testing."""
    return _SPLIT_OF.get(word.lower())


def files_of(scheme: str, path: str, endings: Sequence[str]) -> dict[str | None, list[Path]]:
    """Return the files of each split of a folder in the order of SPLITS, or under None those of data in one piece.

    A folder where no file has the name of a split is one piece, in the order of its names. Raises UsageError where
    there is none, two are the same split by other words, or some of the numbered files of a split are not there.
    """
    if not path:
        raise UsageError(f"data {scheme}: name the file or the folder: {scheme}:reviews{endings[0]}")
    place = Path(path).expanduser()
    if not is_folder(place):
        return {None: [place]}
    found = entries(place, endings)
    splits: dict[str, dict[str, list[Path]]] = {}
    for file in found:
        match = _NAME.fullmatch(file.stem.lower())
        if match is not None and (split := split_of(match[1])) is not None:
            splits.setdefault(split, {}).setdefault(match[1], []).append(file)
    if not splits:
        return {None: found}
    return {split: _one(place, splits[split]) for split in SPLITS if split in splits}


def _one(place: Path, words: dict[str, list[Path]]) -> list[Path]:
    if len(words) > 1:
        raise UsageError(f"{place}: has both {' and '.join(f[0].name for f in words.values())}; remove one of them")
    ((word, files),) = words.items()
    of = {int(match[2]) for file in files if (match := _NAME.fullmatch(file.stem.lower())) and match[2]}
    if of and of != {len(files)}:
        raise UsageError(f"{place}: has {len(files)} of the {max(of)} files of {word}")
    return files


def is_folder(place: Path) -> bool:
    """Say whether it is a folder. Raises UsageError if it is not there or may not be looked at."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        what = "no such file or folder" if missing else f"cannot be read: {error.strerror}"
        raise UsageError(f"{place}: {what}") from error


def entries(folder: Path, endings: Sequence[str]) -> list[Path]:
    """Return the files with one of these endings, in the order of names; hidden ones are left out.

    Raises UsageError if there is none, naming a folder in it that has some.
    """
    try:
        every = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error
    found = _with_ending(every, endings)
    if not found:
        inner = next((e for e in every if e.is_dir() and _with_ending(e.iterdir(), endings)), None)
        hint = f", but {inner.name} in it has: name {inner}" if inner is not None else ""
        raise UsageError(f"{folder}: a folder without {' or '.join(endings)} files{hint}")
    return found


def _with_ending(files: Iterable[Path], endings: Sequence[str]) -> list[Path]:
    return [file for file in files if file.suffix.lower() in endings and not file.name.startswith(".")]


def size_of(file: Path, largest: int | None = None) -> int:
    """Return the bytes of a regular file that is not empty. Raises UsageError if it is none, or too large."""
    if is_folder(file) or not file.is_file():
        raise UsageError(f"{file}: not a regular file")
    size = file.stat().st_size
    if size == 0:
        raise UsageError(f"{file}: empty")
    if largest is not None and size > largest:
        raise UsageError(f"{file}: {size} bytes, more than the limit of {largest}; use a part of it")
    return size


def files_digest(files: Sequence[Path]) -> str:
    """Return a SHA-256 of the contents; of several files, of their names and sizes too.

    Of a file beyond 256 MiB it is of 256 blocks of 1 MiB, evenly spread, and the last: all would take an epoch.
    """
    digest = hashlib.sha256()
    for file in files:
        size = size_of(file)
        if len(files) > 1:
            digest.update(f"{file.name}\t{size}\n".encode())
        step = max(_BLOCK_BYTES, size // _BLOCKS)
        starts = [*range(0, size, step), *([size - _BLOCK_BYTES] if step > _BLOCK_BYTES else [])]
        try:
            with file.open("rb") as stream:
                for start in starts:
                    stream.seek(start)
                    digest.update(stream.read(_BLOCK_BYTES))
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def lines(file: Path) -> Iterator[str]:
    """Yield each line of a text with its end, the byte-order mark left out; rows count from 1, as an editor shows them.

    Raises UsageError naming the file, and the row, if it is missing, irregular, empty, too large, binary or not UTF-8.
    """
    size_of(file, LARGEST_TABLE_BYTES)
    try:
        with file.open("rb") as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE_BYTES + 1):
                number += 1
                yield _text(f"{file}: row {number}", line, "utf-8-sig" if number == 1 else "utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error


def _text(at: str, line: bytes, encoding: str) -> str:
    if len(line) > LONGEST_LINE_BYTES:
        raise UsageError(f"{at}: longer than {LONGEST_LINE_BYTES} bytes; not a table")
    if b"\0" in line:
        raise UsageError(f"{at}: has NUL bytes: a binary file, not text")
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(f"{at}: not UTF-8 text ({error.reason})") from error
