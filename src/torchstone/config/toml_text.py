"""TOML and where everything in it stands. The standard library reads it and finds its faults, but tells no places."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from torchstone.config.positions import KeyPath, Layout, Place
from torchstone.core.errors import UsageError

_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")
_TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TWICE = ("Cannot overwrite", "Duplicate inline", "twice", "Cannot mutate")
_TOKEN = re.compile(
    r'''(?P<skip>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)
    |(?P<string>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    |(?P<mark>[\[\]{},=])|(?P<bare>[^\s\[\]{},=\#"']+)''',
    re.DOTALL | re.VERBOSE,
)


def read_toml(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a TOML text and its Layout. Raises UsageError, one line, with its position."""
    try:
        return tomllib.loads(text), _Reader(text).layout()
    except tomllib.TOMLDecodeError as fault:
        lines = text.splitlines()
        place = _PLACE.search(str(fault))
        line, column = (int(place[1]), int(place[2])) if place else (max(1, len(lines)), 1)
        what = f"not TOML: {_PLACE.sub('', str(fault))}"
        if any(sign in str(fault) for sign in _TWICE):
            here = lines[line - 1] if line <= len(lines) else ""
            match = _KEY.match(here) or _TABLE.match(here)
            what = f"{match[1].strip() if match else here.strip()}: duplicate key"
        raise UsageError(f"{name}:{line}:{column}: {what}") from None


class _Reader:
    """Reads tokens in order. It may trust the text: tomllib has read it before."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            (str(match.lastgroup), match.start(), match.end())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "skip"
        ]
        self._at = 0
        self._places: Layout = {}
        self._counts: dict[KeyPath, int] = {}

    def layout(self) -> Layout:
        table: KeyPath = ()
        while self._at < len(self._tokens):
            if self._tokens[self._at][0] == "newline":
                self._at += 1
            elif self._is("["):
                table = self._header()
            else:
                self._pair(table, braced=False)
        return self._places

    def _is(self, mark: str) -> bool:
        kind, start, end = self._tokens[self._at]
        return kind == "mark" and self._text[start:end] == mark

    def _header(self) -> KeyPath:
        """Read [table] or [[array of tables]]; return where what follows belongs."""
        begin = self._tokens[self._at][1]
        self._at += 1
        array = self._is("[")
        self._at += array
        parts = self._key("]")[0]
        self._at += array
        end = self._tokens[self._at - 1][2]
        path: KeyPath = ()
        for index, part in enumerate(parts):
            path = (*path, part)
            if array and index == len(parts) - 1:
                self._counts[path] = self._counts.get(path, -1) + 1
            if path in self._counts:
                path = (*path, self._counts[path])
        self._places.setdefault(path, Place(begin, end, end, end, "table", braced=False))
        return path

    def _key(self, until: str) -> tuple[KeyPath, int, int]:
        """Read a key, dotted or not, and the mark after it; return its parts and its span."""
        start = self._tokens[self._at][1]
        end = start
        while not self._is(until):
            end = self._tokens[self._at][2]
            self._at += 1
        self._at += 1
        text = self._text[start:end]
        if "'" not in text and '"' not in text:
            return tuple(part.strip() for part in text.split(".")), start, end
        parts: list[str] = []
        inner: Any = tomllib.loads(f"{text} = 0")
        while isinstance(inner, dict):
            ((part, inner),) = inner.items()
            parts.append(part)
        return tuple(parts), start, end

    def _pair(self, table: KeyPath, *, braced: bool) -> None:
        parts, key_start, key_end = self._key("=")
        path = (*table, *parts)
        start, end, kind, items = self._value(path)
        self._places[path] = Place(key_start, key_end, start, end, kind, braced, items)

    def _value(self, path: KeyPath) -> tuple[int, int, str, tuple[tuple[int, int], ...]]:
        kind, start, end = self._tokens[self._at]
        opens = self._text[start:end] if kind == "mark" else ""
        self._at += 1
        if not opens:
            while kind == "bare" and self._at < len(self._tokens) and self._tokens[self._at][0] == "bare":
                end = self._tokens[self._at][2]  # a date and its time, with a space between
                self._at += 1
            return start, end, "scalar", ()
        items: list[tuple[int, int]] = []
        while not self._is("]" if opens == "[" else "}"):
            if self._tokens[self._at][0] == "newline" or self._is(","):
                self._at += 1
            elif opens == "{":
                self._pair(path, braced=True)
            else:
                items.append(self._value((*path, len(items)))[:2])
        self._at += 1
        return start, self._tokens[self._at - 1][2], "list" if opens == "[" else "mapping", tuple(items)
