"""From YAML, JSON or TOML to plain data that knows where each key stands. A duplicate key is an error in all."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.positions import (
    KeyPath,
    Layout,
    Position,
    TooDeep,
    Twice,
    key_text,
    position,
    positions_of,
)
from torchstone.core.errors import UsageError, did_you_mean, unknown

MOST_BYTES = 2**20
FORMATS = (".yaml", ".yml", ".json", ".toml")


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

    def unknown_key(self, path: KeyPath, known: Iterable[str]) -> UsageError:
        """Return the error for a key that means nothing there: the nearest spelling first, then all there is."""
        names = list(known)
        hint = did_you_mean(str(path[-1]), names)
        return self.fault(path, f"unknown key.{hint} Known: {', '.join(names)}")


def read_file(path: Path) -> Source:
    """Read a run file. Raises UsageError with file, line and column for whatever is wrong with its form."""
    if path.suffix.lower() not in FORMATS:
        raise unknown("kind of file", path.suffix or path.name, FORMATS)
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES} bytes is too large for a run file")
    text = decoded(raw, path)
    data, layout = parsed(text, path)
    source = Source(str(path), {}, positions_of(text, layout))
    if not isinstance(data, dict):
        raise UsageError(f"{path}:1:1: a run file must be a mapping of keys to values")
    source.data = _plain(data, (), source)
    return source


def decoded(raw: bytes, path: Path) -> str:
    """Return the text of a file, without its byte-order mark. Raises UsageError naming the line that is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise UsageError(f"{path}:{line}:1: not UTF-8 text (byte {fault.object[fault.start]:#04x})") from None


def parsed(text: str, path: Path) -> tuple[Any, Layout]:
    """Return what a text means, and where everything in it stands. Raises UsageError, one line, with its position."""
    try:
        return _reader(path.suffix.lower())(text, str(path))
    except Twice as fault:
        line, column = position(text, fault.offset)
        raise UsageError(f"{path}:{line}:{column}: {key_text(fault.path)}: duplicate key") from None
    except (RecursionError, TooDeep):
        raise UsageError(f"{path}:1:1: nested too deeply") from None


def _reader(suffix: str) -> Callable[[str, str], tuple[Any, Layout]]:
    if suffix == ".json":
        from torchstone.config.json_text import read_json

        return read_json
    if suffix == ".toml":
        from torchstone.config.toml_text import read_toml

        return read_toml
    from torchstone.config.yaml_text import read_yaml

    return read_yaml


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
