"""Where every key and value of a YAML, JSON or TOML text stands, to the character: what a change in place needs."""

from __future__ import annotations

import json
import re

import msgspec

from torchstone.config.positions import KeyPath

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_YAML_PROPERTIES = re.compile(r"(?:[&!]\S*\s*)*")  # an anchor and a tag, before the value they belong to


class Place(msgspec.Struct, frozen=True):
    """A key and its value, as offsets in characters. `items` are the spans of a list's items."""

    key_start: int
    key_end: int
    start: int
    end: int
    kind: str  # "scalar", "list", "mapping", "table" (a header of TOML), "folded" (a text over several lines of YAML)
    braced: bool  # it is a key of a mapping between braces
    items: tuple[tuple[int, int], ...] = ()


Layout = dict[KeyPath, Place]


class _Open(msgspec.Struct):
    """A mapping or list whose end has not come yet."""

    path: KeyPath
    mapping: bool
    flow: bool
    start: int
    end: int
    key: str | None = None
    key_span: tuple[int, int] = (0, 0)
    items: list[tuple[int, int]] = []


class LayoutBuilder:
    """Turns the events of a reader into a Layout. Values of mappings get a Place, items of lists a span in theirs."""

    def __init__(self) -> None:
        self.places: Layout = {}
        self._stack: list[_Open] = []

    @property
    def wants_key(self) -> bool:
        """Whether what comes next in the open mapping is a key."""
        return bool(self._stack) and self._stack[-1].mapping and self._stack[-1].key is None

    def key(self, name: str, start: int, end: int) -> None:
        """Note the key of the value that comes next."""
        self._stack[-1].key = name
        self._stack[-1].key_span = (start, end)

    def enter(self, start: int, *, mapping: bool, flow: bool) -> None:
        """Open a mapping or a list. `flow`: it is written between brackets."""
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
            self.places[()] = Place(start, start, start, end, kind, braced=False, items=items)
            return
        path, within = self._path(), self._stack[-1]
        within.end = end
        if within.mapping:
            self.places[path] = Place(*within.key_span, start, end, kind, within.flow, items)
            within.key = None
        else:
            within.items.append((start, end))


def yaml_layout(text: str) -> Layout:
    """Return the Layout of sound YAML: one document, keys that are words."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import (
        AliasEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    build = LayoutBuilder()
    key_end = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        start, end = event.start_mark.index, event.end_mark.index
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            properties = _YAML_PROPERTIES.match(text, start, end) if not isinstance(event, AliasEvent) else None
            start = properties.end() if properties else start
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            build.enter(start, mapping=isinstance(event, MappingStartEvent), flow=bool(event.flow_style))
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            build.leave(end)
        elif isinstance(event, ScalarEvent | AliasEvent) and build.wants_key:
            build.key(str(getattr(event, "value", None) or text[start:end]), start, end)
            key_end = end
        elif isinstance(event, ScalarEvent | AliasEvent):
            if start == end and not getattr(event, "anchor", None):
                start = end = text.find(":", key_end) + 1  # nothing there: what comes belongs right behind the colon
            build.value(start, end, "folded" if getattr(event, "style", None) in ("|", ">") else "scalar")
    return build.places


def json_layout(text: str) -> Layout:
    """Return the Layout of sound JSON."""
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
