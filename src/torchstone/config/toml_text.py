"""TOML with positions. The standard library finds the faults; where keys stand is read from the lines."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from torchstone.config.positions import KeyPath, Position
from torchstone.core.errors import UsageError

_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")
_TABLE = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_TWICE = ("Cannot overwrite", "Duplicate inline", "twice", "Cannot mutate")


def read_toml(text: str, name: str) -> tuple[Any, dict[KeyPath, Position]]:
    """Return the data of a TOML text and where each key stands. Raises UsageError, one line, with its position."""
    try:
        return tomllib.loads(text), _positions(text)
    except tomllib.TOMLDecodeError as fault:
        lines = text.splitlines()
        place = _PLACE.search(str(fault))
        line, column = (int(place[1]), int(place[2])) if place else (max(1, len(lines)), 1)
        what = f"not TOML: {_PLACE.sub('', str(fault))}"
        if any(sign in str(fault) for sign in _TWICE):
            here = lines[line - 1] if line <= len(lines) else ""
            match = _KEY.match(here) or _TABLE.match(here)
            what = f"{match[match.lastindex or 0].strip() if match else here.strip()}: duplicate key"
        raise UsageError(f"{name}:{line}:{column}: {what}") from None


def _positions(text: str) -> dict[KeyPath, Position]:
    positions: dict[KeyPath, Position] = {(): (1, 1)}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        here = (number, len(line) - len(line.lstrip()) + 1)
        if match := _TABLE.match(line):
            table = _indexed(_parts(match[2]), counts)
            if match[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                positions.setdefault(table, here)
                table = (*table, counts[table])
            positions.setdefault(table, here)
        elif match := _KEY.match(line):
            full = (*table, *_parts(match[1]))
            for end in range(len(table) + 1, len(full) + 1):
                positions.setdefault(full[:end], here)
    return positions


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(text))


def _indexed(parts: tuple[str, ...], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the path with the index of the present element after each array of tables on the way."""
    path: KeyPath = ()
    for place, part in enumerate(parts):
        path = (*path, part)
        if path in counts and place < len(parts) - 1:
            path = (*path, counts[path])
    return path
