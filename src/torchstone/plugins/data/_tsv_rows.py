"""Reads `sentence<TAB>label`, a row a line, strictly: a file that is not that is named with its first wrong row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.plugins.data._named_files import lines
from torchstone.plugins.data._table_items import LARGEST_LABEL, Item

_HEADINGS = ("label", "labels", "class", "target", "sentiment", "y")
_INDEXED = ["index", "sentence"]  # how GLUE heads a test set, whose labels it keeps to itself


def rows(file: Path) -> Iterator[Item]:
    """Yield the rows of a UTF-8 file; a first line whose second column is called label (class, …) is a header.

    Raises UsageError naming the file, and the row, if it is no such file, or if a row has other than two columns, no
    text, or a label that is not a whole number from 0.
    """
    found = (item for number, line in enumerate(lines(file), 1) if (item := _row(file, number, line)) is not None)
    yield from _some(file, found, "sentence<TAB>label")


def is_indexed(file: Path) -> bool:
    """Say whether a file is headed index<TAB>sentence, and so has no labels."""
    return [line.rstrip("\r\n").split("\t") for line in islice(lines(file), 1)] == [_INDEXED]


def indexed_rows(file: Path) -> Iterator[Item]:
    """Yield the rows of a file headed index<TAB>sentence, without labels. Raises UsageError as `rows` does."""
    numbered = islice(enumerate(lines(file), 1), 1, None)
    yield from _some(file, (_indexed_row(file, number, line) for number, line in numbered), "index<TAB>sentence")


def _some(file: Path, found: Iterator[Item], form: str) -> Iterator[Item]:
    first = next(found, None)
    if first is None:
        raise UsageError(f"{file}: has no rows; each is {form}")
    yield first
    yield from found


def _row(file: Path, number: int, line: str) -> Item | None:
    """Return a row, or None for a header."""
    at = f"{file}: row {number}"
    sentence, label = _columns(at, line, "sentence<TAB>label")
    if number == 1 and label.lower() in _HEADINGS:
        return None
    if not sentence:
        raise UsageError(f"{at}: has no text before its label")
    return Item(at, sentence, _label(at, label))


def _indexed_row(file: Path, number: int, line: str) -> Item:
    at = f"{file}: row {number}"
    index, sentence = _columns(at, line, "index<TAB>sentence")
    if not (index.isascii() and index.isdigit()):
        raise UsageError(f"{at}: the index {index[:40]!r} is not a whole number")
    if not sentence:
        raise UsageError(f"{at}: has no text after its index")
    return Item(at, sentence, None)


def _columns(at: str, line: str, form: str) -> tuple[str, str]:
    columns = line.rstrip("\r\n").split("\t")
    if len(columns) != 2:
        raise UsageError(f"{at}: has {len(columns)} column{'s' * (len(columns) != 1)}, not 2; write {form}")
    return columns[0].strip(), columns[1].strip()


def _label(at: str, label: str) -> int:
    digits = label.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise UsageError(f"{at}: the label {label[:40]!r} is not a whole number")
    value = int(label)
    if not 0 <= value <= LARGEST_LABEL:
        raise UsageError(f"{at}: the label {value} is {'negative' if value < 0 else 'too large'}; classes count from 0")
    return value
