"""YAML, JSON or TOML as plain data, with the position of every key and value: for messages, and for edits in place.

In YAML `1e-5` is a number and `off` is a word; NaN is not JSON; a duplicate key is an error in all three.
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from torchstone.core.errors import UsageError, did_you_mean, unknown

KeyPath = tuple[str | int, ...]
Position = tuple[int, int]  # line and column, counted from 1
_DEEPEST = 50


class KeySpan(msgspec.Struct, frozen=True):
    """A key and its value, as offsets in characters. `items` are the spans of a list's items."""

    key_start: int
    key_end: int
    start: int
    end: int
    kind: str  # "scalar", "list", "mapping", "table" (a header of TOML), "folded" (a text over several lines of YAML)
    braced: bool  # it is a key of a mapping between braces
    items: tuple[tuple[int, int], ...] = ()


Layout = dict[KeyPath, KeySpan]


class Twice(Exception):
    """A key is there twice in one mapping: its path, and the offset of the second."""

    def __init__(self, path: KeyPath, offset: int) -> None:
        super().__init__(path, offset)
        self.path, self.offset = path, offset


class TooDeep(Exception):
    """Mappings and lists lie in one another more deeply than in any configuration."""


class _Open(msgspec.Struct):
    """A mapping or list whose end has not come yet."""

    path: KeyPath
    mapping: bool
    flow: bool
    start: int
    end: int
    key: str | None = None
    key_span: tuple[int, int] = (0, 0)
    keys: set[str] = set()
    items: list[tuple[int, int]] = []


class LayoutBuilder:
    """Turns the events of a reader into a Layout. Values of mappings get a KeySpan, items of lists a span in theirs."""

    def __init__(self) -> None:
        self.places: Layout = {}
        self._stack: list[_Open] = []

    @property
    def wants_key(self) -> bool:
        """Whether what comes next in the open mapping is a key."""
        return bool(self._stack) and self._stack[-1].mapping and self._stack[-1].key is None

    def key(self, name: str, start: int, end: int) -> None:
        """Note the key of the value that comes next. Raises Twice for one that its mapping has already."""
        within = self._stack[-1]
        if name in within.keys:
            raise Twice((*within.path, name), start)
        within.keys.add(name)
        within.key, within.key_span = name, (start, end)

    def enter(self, start: int, *, mapping: bool, flow: bool) -> None:
        """Open a mapping or a list. `flow`: it is written between brackets. Raises TooDeep."""
        if len(self._stack) > _DEEPEST:
            raise TooDeep
        self._stack.append(_Open(self._path(), mapping, flow, start, start))

    def leave(self, end: int) -> None:
        """Close it. What is not between brackets ends where the last value in it ends."""
        done = self._stack.pop()
        kind = "mapping" if done.mapping else "list"
        self._settle(done.start, end if done.flow else done.end, kind, tuple(done.items))

    def value(self, start: int, end: int, kind: str = "scalar") -> None:
        """Note a scalar."""
        self._settle(start, end, kind, ())

    def _path(self) -> KeyPath:
        if not self._stack:
            return ()
        within = self._stack[-1]
        return (*within.path, within.key or "") if within.mapping else (*within.path, len(within.items))

    def _settle(self, start: int, end: int, kind: str, items: tuple[tuple[int, int], ...]) -> None:
        if not self._stack:
            self.places[()] = KeySpan(start, start, start, end, kind, braced=False, items=items)
            return
        path, within = self._path(), self._stack[-1]
        within.end = end
        if within.mapping:
            self.places[path] = KeySpan(*within.key_span, start, end, kind, within.flow, items)
            within.key = None
        else:
            within.items.append((start, end))


def position(text: str, offset: int) -> Position:
    """Return line and column of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def positions_of(text: str, layout: Layout) -> dict[KeyPath, Position]:
    """Return where each key and each item of a list stands; a mapping without a key stands where its first key does."""
    lines = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]

    def position_at(offset: int) -> Position:
        line = bisect_right(lines, offset)
        return line, offset - lines[line - 1] + 1

    found = {path: position_at(place.key_start) for path, place in layout.items()}
    for path, place in layout.items():
        for index, (start, _) in enumerate(place.items):
            found.setdefault((*path, index), position_at(start))
    for path in layout:  # a.b.c = 1 of TOML
        for end in range(len(path) - 1, 0, -1):
            found.setdefault(path[:end], found[path])
    return found


def key_text(path: KeyPath) -> str:
    """Return a path as a person writes it: ("workloads", 0, "axes") → workloads[0].axes."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def move_positions(positions: dict[KeyPath, Position], old: KeyPath, new: KeyPath) -> None:
    """Let `new` and everything below it stand where `old` stands."""
    found: Mapping[KeyPath, Position] = {p: at for p, at in positions.items() if p[: len(old)] == old}
    for path, at in found.items():
        positions.setdefault((*new, *path[len(old) :]), at)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def read_json(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a JSON text and its Layout. Raises UsageError, one line, with its position."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{name}:{fault.lineno}:{fault.colno}: not JSON: {fault.msg}") from None
    except ValueError as fault:
        raise UsageError(f"{name}:1:1: not JSON: {fault}") from None
    return data, _layout(text)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _layout(text: str) -> Layout:
    build = LayoutBuilder()
    for match in _JSON_TOKEN.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        if token in "{[":
            build.enter(start, mapping=token == "{", flow=True)
        elif token in "}]":
            build.leave(end)
        elif token not in ":,":
            if build.wants_key:
                build.key(str(json.loads(token)), start, end)
            else:
                build.value(start, end)
    return build.places


_MOST_NODES = 100_000
_PROPERTIES = re.compile(r"(?:[&!]\S*\s*)*")  # an anchor and a tag, before the value they belong to


def read_yaml(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a YAML text and its Layout. Raises UsageError, one line, with its position."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        layout = _Events(text, name).layout()
        return YAML(typ="safe", pure=True).load(text), layout
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        raise UsageError(f"{at}: not YAML: {fault.problem or fault.context}") from None
    except YAMLError as fault:
        raise UsageError(f"{name}:1:1: not YAML: {' '.join(str(fault).split())[:200]}") from None
    except ValueError as fault:  # a value with the form of a number or date that is none: 2026-13-45
        raise UsageError(f"{name}:1:1: not YAML: {fault}") from None


class _Events:
    """Builds a Layout of the events of a text, and counts its values with what aliases stand for."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._build = LayoutBuilder()
        self._key_end = 0
        self._count = 0
        self._sizes: dict[str, int] = {}  # of what an anchor names; a few lines can stand for a billion values
        self._open: list[tuple[str | None, int]] = []  # the anchors of what is not closed yet, and the count before

    def layout(self) -> Layout:
        from ruamel.yaml import YAML
        from ruamel.yaml.events import (
            AliasEvent,
            DocumentEndEvent,
            MappingEndEvent,
            MappingStartEvent,
            ScalarEvent,
            SequenceEndEvent,
            SequenceStartEvent,
        )

        for event in YAML(typ="safe", pure=True).parse(self._text):
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                self._enter(event, mapping=isinstance(event, MappingStartEvent))
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._leave(event)
            elif isinstance(event, AliasEvent):
                self._counted(self._size_of(event.anchor), event)
                self._scalar(event, event.start_mark.index)
            elif isinstance(event, ScalarEvent):
                self._counted(1, event)
                if event.anchor:
                    self._sizes[event.anchor] = 1
                self._scalar(event, self._begin(event))
            elif isinstance(event, DocumentEndEvent):
                break  # the reading of it refuses a second one
        return self._build.places

    def _begin(self, event: Any) -> int:
        """Return where a value begins, behind its anchor and its tag."""
        start, end = event.start_mark.index, event.end_mark.index
        properties = _PROPERTIES.match(self._text, start, end) if event.anchor or event.tag else None
        return properties.end() if properties else start

    def _enter(self, event: Any, *, mapping: bool) -> None:
        if self._build.wants_key:
            raise UsageError(f"{self._at(event)}: a key must be a word, not a list or a mapping")
        self._open.append((event.anchor, self._count))
        self._counted(1, event)
        self._build.enter(self._begin(event), mapping=mapping, flow=bool(event.flow_style))

    def _leave(self, event: Any) -> None:
        anchor, before = self._open.pop()
        if anchor:
            self._sizes[anchor] = self._count - before
        self._build.leave(event.end_mark.index)

    def _scalar(self, event: Any, start: int) -> None:
        end, style = event.end_mark.index, getattr(event, "style", None)
        if self._build.wants_key:
            self._build.key(str(getattr(event, "value", None) or self._text[start:end]), start, end)
            self._key_end = end
            return
        if start == end and not event.anchor:
            start = end = self._text.find(":", self._key_end) + 1  # nothing there: what comes belongs behind the colon
        self._build.value(start, end, "folded" if style in ("|", ">") else "scalar")

    def _size_of(self, anchor: str) -> int:
        """Return how many values an anchor names: endless, where it is not closed yet."""
        return _MOST_NODES if any(anchor == one for one, _ in self._open) else self._sizes.get(anchor, 1)

    def _counted(self, values: int, event: Any) -> None:
        self._count += values
        if self._count > _MOST_NODES:
            raise UsageError(f"{self._at(event)}: too many values or too deep, aliases followed")

    def _at(self, event: Any) -> str:
        return f"{self._name}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"


_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")
_TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TWICE = ("Cannot overwrite", "Duplicate inline", "twice", "Cannot mutate")
_TOML_TOKEN = re.compile(
    r'''(?P<skip>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)
    |(?P<string>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    |(?P<mark>[\[\]{},=])|(?P<bare>[^\s\[\]{},=\#"']+)''',
    re.DOTALL | re.VERBOSE,
)


def read_toml(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a TOML text and its Layout. Raises UsageError, one line, with its position."""
    try:
        return tomllib.loads(text), _TomlTokens(text).layout()
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


class _TomlTokens:
    """Reads tokens in order. It may trust the text: tomllib has read it before."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            (str(match.lastgroup), match.start(), match.end())
            for match in _TOML_TOKEN.finditer(text)
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
        self._places.setdefault(path, KeySpan(begin, end, end, end, "table", braced=False))
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
        self._places[path] = KeySpan(key_start, key_end, start, end, kind, braced, items)

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


MOST_BYTES = 2**20
FORMATS = (".yaml", ".yml", ".json", ".toml")


class ConfigFile(msgspec.Struct):
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


def read_file(path: Path) -> ConfigFile:
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
    text = decode_text(raw, path)
    data, layout = parse_with_layout(text, path)
    source = ConfigFile(str(path), {}, positions_of(text, layout))
    if not isinstance(data, dict):
        raise UsageError(f"{path}:1:1: a run file must be a mapping of keys to values")
    source.data = _plain(data, (), source)
    return source


def decode_text(raw: bytes, path: Path) -> str:
    """Return the text of a file, without its byte-order mark. Raises UsageError naming the line that is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise UsageError(f"{path}:{line}:1: not UTF-8 text (byte {fault.object[fault.start]:#04x})") from None


def parse_with_layout(text: str, path: Path) -> tuple[Any, Layout]:
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
        return read_json
    if suffix == ".toml":
        return read_toml

    return read_yaml


def _plain(value: Any, path: KeyPath, source: ConfigFile) -> Any:
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
