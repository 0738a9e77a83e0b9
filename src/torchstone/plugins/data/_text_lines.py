"""Lines of a text file that may be anything: read in bounds, and named where they are no UTF-8 text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.plugins.data._named_files import LARGEST_TABLE_BYTES, size_of

LONGEST_LINE_BYTES = 1 << 20


def lines(file: Path) -> Iterator[str]:
    """Yield each line with its end, the byte-order mark left out. Rows are counted from 1, as an editor shows them.

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
