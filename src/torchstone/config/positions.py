"""Where every key and value of a YAML, JSON or TOML text stands, to the character: for faults and changes in place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import msgspec

KeyPath = tuple[str | int, ...]
Position = tuple[int, int]  # line and column, counted from 1
_DEEPEST = 50


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
    """Turns the events of a reader into a Layout. Values of mappings get a Place, items of lists a span in theirs."""

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
            self.places[()] = Place(start, start, start, end, kind, braced=False, items=items)
            return
        path, within = self._path(), self._stack[-1]
        within.end = end
        if within.mapping:
            self.places[path] = Place(*within.key_span, start, end, kind, within.flow, items)
            within.key = None
        else:
            within.items.append((start, end))


def position(text: str, offset: int) -> Position:
    """Return line and column of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def positions_of(text: str, layout: Layout) -> dict[KeyPath, Position]:
    """Return where each key and each item of a list stands; a mapping without a key stands where its first key does."""
    lines = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]

    def placed(offset: int) -> Position:
        line = bisect_right(lines, offset)
        return line, offset - lines[line - 1] + 1

    found = {path: placed(place.key_start) for path, place in layout.items()}
    for path, place in layout.items():
        for index, (start, _) in enumerate(place.items):
            found.setdefault((*path, index), placed(start))
    for path in layout:  # a.b.c = 1 of TOML
        for end in range(len(path) - 1, 0, -1):
            found.setdefault(path[:end], found[path])
    return found


def key_text(path: KeyPath) -> str:
    """Return a path as a person writes it: ("workloads", 0, "axes") → workloads[0].axes."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def moved(positions: dict[KeyPath, Position], old: KeyPath, new: KeyPath) -> None:
    """Let `new` and everything below it stand where `old` stands."""
    found: Mapping[KeyPath, Position] = {p: at for p, at in positions.items() if p[: len(old)] == old}
    for path, at in found.items():
        positions.setdefault((*new, *path[len(old) :]), at)
