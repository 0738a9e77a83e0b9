"""From YAML, JSON or TOML to plain data that knows where each key stands. A duplicate key is an error in all."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.positions import KeyPath, Position, key_text
from torchstone.core.errors import UsageError, unknown

MOST_BYTES = 2**20


class Source(msgspec.Struct):
    """A file that was read: `data` holds only mappings with text keys, lists and scalars."""

    name: str
    data: dict[str, Any]
    positions: Mapping[KeyPath, Position]

    def at(self, path: KeyPath) -> str:
        """Return "file:line:column" of a key, or of the nearest place above it that is in the file. Counted from 1."""
        while path and path not in self.positions:
            path = path[:-1]
        line, column = self.positions.get(path, (1, 1))
        return f"{self.name}:{line}:{column}"

    def fault(self, path: KeyPath, what: str) -> UsageError:
        """Return the error for what is wrong with a key."""
        return UsageError(": ".join(part for part in (self.at(path), key_text(path), what) if part))


def read_file(path: Path) -> Source:
    """Read a run file. Raises UsageError with file, line and column for whatever is wrong with its form."""
    readers = _readers()
    if path.suffix.lower() not in readers:
        raise unknown("kind of file", path.suffix or path.name, readers)
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES} bytes is too large for a run file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise UsageError(f"{path}:{line}:1: not UTF-8 text (byte {raw[fault.start]:#04x})") from None
    try:
        data, positions = readers[path.suffix.lower()](text, str(path))
    except RecursionError:
        raise UsageError(f"{path}:1:1: nested too deeply") from None
    source = Source(str(path), {}, positions)
    if not isinstance(data, dict):
        raise UsageError(f"{path}:1:1: a run file must be a mapping of keys to values")
    source.data = _plain(data, (), source)
    return source


def _readers() -> Mapping[str, Callable[[str, str], tuple[Any, Mapping[KeyPath, Position]]]]:
    from torchstone.config.json_text import read_json
    from torchstone.config.toml_text import read_toml
    from torchstone.config.yaml_text import read_yaml

    return {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json, ".toml": read_toml}


def _plain(value: Any, path: KeyPath, source: Source) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise source.fault((*path, str(key)), f"the key {key!r} is not a word: put it in quotes")
        return {key: _plain(inner, (*path, key), source) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, (*path, index), source) for index, inner in enumerate(value)]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if value is not None and not isinstance(value, str | int | float | bool):
        raise source.fault(path, f"a {type(value).__name__} is not a plain value")
    return value
