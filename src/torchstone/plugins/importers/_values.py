"""Reading untrusted files: bounded size, text, JSON as Python writes it, CSV; never executed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError

MOST_BYTES = 64 * 2**20  # JSON of nothing but empty lists takes 20 times as much in memory
MOST_ROWS = 100_000
_LONGEST = 200  # characters of a name; what is longer is no name
# No measurement in any unit lies beyond, and what lies within can be squared and divided without an overflow.
_LARGEST, _SMALLEST, _LARGEST_WHOLE = 1e30, 1e-30, 2**63


def bytes_of(path: Path) -> bytes:
    """Return what a file holds. Raises UsageError if it cannot be read, is no plain file, or is too large."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file")
        if found.st_size > MOST_BYTES:
            raise UsageError(f"{path}: {found.st_size} bytes exceeds the limit for imported files ({MOST_BYTES})")
        return path.read_bytes()
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None


def text_of(path: Path) -> str:
    """Return a text file's text. Raises UsageError if it is not UTF-8."""
    try:
        return bytes_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UsageError(f"{path}: byte {fault.start} is not UTF-8") from None


def parsed(text: str, where: str) -> Any:
    """Return the value that JSON spells, NaN and Infinity among its numbers. Raises UsageError naming the place."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{where}: is not JSON: {fault.msg} in line {fault.lineno}, column {fault.colno}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{where}: is nested too deeply, or has a number with thousands of digits") from None


def rows_of(text: str, where: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file with a header, names and values stripped. Raises UsageError naming the row.

    Empty lines are passed over, and count as rows against the bound.
    """
    try:
        # Line by line: a list of all lines may take 20 times as much.
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = [name.strip() for name in next(lines, [])]
        rows: list[dict[str, str]] = []
        for number, cells in enumerate(lines, 2):
            if number > MOST_ROWS + 1:
                raise UsageError(f"{where}: more than {MOST_ROWS} rows")
            if not cells:
                continue
            if len(cells) > len(header):
                raise UsageError(f"{where}:{number}: {len(cells)} cells under {len(header)} names")
            rows.append(dict(zip(header, (cell.strip() for cell in cells), strict=False)))
    except csv.Error as fault:
        raise UsageError(f"{where}: not CSV: {fault}") from None
    return rows


def header_of(beginning: bytes) -> frozenset[str]:
    """Return the names in the first line of a CSV file; none for a table of torchstone's own: its record says more."""
    line = beginning.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    names = frozenset(name.strip() for name in line.split(","))
    return frozenset() if {"run_id", "case_id"} <= names else names


def number(value: object) -> float | None:
    """Return a number, or a text that spells one, as a float; None for all else.

    NaN for what is infinite, or too large to be a measurement in any unit; 0 for what is as small.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not abs(found) <= _LARGEST:
        return math.nan
    return found if abs(found) >= _SMALLEST else 0.0


def whole(value: object) -> int | None:
    """Return a number that is whole, as an int of 64 bits; None for all else."""
    found = number(value)
    known = found is not None and abs(found) < _LARGEST_WHOLE and found == int(found)
    return int(found) if found is not None and known else None


def word(value: object) -> str | None:
    """Return a name: text that is not empty, cut where it is too long to be one, as UTF-8 can spell it."""
    if not isinstance(value, str):
        return None
    return value.strip()[:_LONGEST].encode("utf-8", "backslashreplace").decode("utf-8") or None


def part(value: object, *keys: str) -> Mapping[str, Any]:
    """Return the object that lies under these keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def numbers(values: object) -> tuple[float, ...]:
    """Return a list of numbers; empty if it is none, or one of its values is not a number."""
    if not isinstance(values, list):
        return ()
    found = [number(value) for value in values]
    return tuple(v for v in found if v is not None) if None not in found else ()


def scaled(value: object, factor: float) -> float | None:
    """Return a number times a factor; None for what is no number."""
    found = number(value)
    return None if found is None else found * factor


def digest(data: bytes | str) -> str:
    """Return the SHA-256 of what was read."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
