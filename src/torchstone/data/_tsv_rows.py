"""Reads `sentence<TAB>label`, a row a line, strictly: a file that is not that is named with its first wrong row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.errors import UsageError

LARGEST_FILE_BYTES = 1 << 30
LONGEST_LINE_BYTES = 1 << 20
_LARGEST_LABEL = 999_999
_HEADINGS = ("label", "labels", "class", "target", "sentiment", "y")


class Row(msgspec.Struct, frozen=True):
    """One row. `number` counts lines from 1, as an editor shows them."""

    number: int
    sentence: str
    label: int


def rows(path: str, digest: hashlib._Hash | None = None) -> Iterator[Row]:
    """Yield the rows of a UTF-8 file; a first line whose second column is called label (class, …) is a header.

    Raises UsageError naming the file, and the row, if it is missing, a folder, empty, binary, too large, or if a row
    has other than two columns, no text, or a label that is not a whole number from 0. `digest` is fed every byte.
    """
    file = Path(path).expanduser()
    _check_file(path, file)
    count = 0
    try:
        with file.open("rb") as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE_BYTES + 1):
                number += 1
                if digest is not None:
                    digest.update(line)
                row = _row(file, number, line)
                if row is not None:
                    count += 1
                    yield row
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    if count == 0:
        raise UsageError(f"{file}: has no rows; each is sentence<TAB>label")


def _check_file(path: str, file: Path) -> None:
    if not path:
        raise UsageError("data tsv: name the file: tsv:reviews.tsv")
    if file.is_dir():
        raise UsageError(f"{file}: a folder; name the file in it: tsv:{path.rstrip('/')}/train.tsv")
    if not file.exists():
        raise UsageError(f"{file}: there is no such file")
    if not file.is_file():
        raise UsageError(f"{file}: not a regular file")
    size = file.stat().st_size
    if size == 0:
        raise UsageError(f"{file}: empty; each row is sentence<TAB>label")
    if size > LARGEST_FILE_BYTES:
        raise UsageError(f"{file}: {size} bytes, more than the {LARGEST_FILE_BYTES} that are read; take a part of it")


def _row(file: Path, number: int, line: bytes) -> Row | None:
    """Return a row, or None for a header and for an empty last line."""
    at = f"{file}: row {number}"
    if len(line) > LONGEST_LINE_BYTES:
        raise UsageError(f"{at}: longer than {LONGEST_LINE_BYTES} bytes; this is not a table of sentences")
    if b"\0" in line:
        raise UsageError(f"{at}: has NUL bytes: a binary file, not text")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{at}: not UTF-8 text ({error.reason})") from error
    columns = text.split("\t")
    if len(columns) != 2:
        raise UsageError(f"{at}: has {len(columns)} column{'s' * (len(columns) != 1)}, not 2; write sentence<TAB>label")
    sentence, label = columns[0].strip(), columns[1].strip()
    if number == 1 and label.lower() in _HEADINGS:
        return None
    if not sentence:
        raise UsageError(f"{at}: has no text before its label")
    return Row(number, sentence, _label(at, label))


def _label(at: str, label: str) -> int:
    digits = label.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        raise UsageError(f"{at}: the label {label[:40]!r} is not a whole number")
    value = int(label)
    if not 0 <= value <= _LARGEST_LABEL:
        raise UsageError(f"{at}: the label {value} is {'negative' if value < 0 else 'too large'}; classes count from 0")
    return value
