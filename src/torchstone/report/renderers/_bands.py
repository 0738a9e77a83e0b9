"""Tables that are wider than a page: columns get their widths, and those without room follow in further bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from torchstone.report.document import Column
from torchstone.report.renderers._table import says_something

_KEYS = 0.35  # of the room, at most, for the first columns, which name the rows and stand in every band
_TOLERANCE = 0.5  # within which the widths of a band fill its room


class Extent(msgspec.Struct, frozen=True):
    """Widths of a column, with its padding: the least, in which no word is cut, and in which no cell is broken."""

    least: float
    natural: float


class Band(msgspec.Struct, frozen=True):
    """Columns that stand beside each other, and their widths. The sum of these is at most the room."""

    columns: tuple[Column, ...]
    widths: tuple[float, ...]


Measure = Callable[[Column], Extent]
_Extents = Mapping[int, Extent]  # by the number of the column


def bands(columns: Sequence[Column], room: float, measure: Measure) -> list[Band]:
    """Return bands that fit: in each the first columns, which name the rows, then others, the lowest ranks first.

    A column without any value is left out, unless it has rank 0. One that needs another (`Column.of`) stands in its
    band. Words are cut only where a column is wider than the room that it has to itself.
    """
    extents = {n: measure(columns[n]) for n in _telling(columns)}
    if not extents:
        return []
    if _least(extents, extents) <= room:
        return [_band(columns, list(extents), extents, room)]
    keys = _keys(columns, extents, room)
    found: list[list[int]] = [[]]
    for group in _groups(columns, [n for n in extents if n not in keys]):
        if found[-1] and _least([*keys, *found[-1], *group], extents) > room:
            found.append([])
        found[-1] += group
    return [_band(columns, sorted([*keys, *others]), extents, room) for others in found]


def _telling(columns: Sequence[Column]) -> list[int]:
    told = [n for n, column in enumerate(columns) if column.rank == 0 or says_something(column)]
    return [n for n in told if columns[n].of is None or columns[n].of in told]


def _least(some: Sequence[int] | _Extents, extents: _Extents) -> float:
    return sum(extents[n].least for n in some)


def _keys(columns: Sequence[Column], extents: _Extents, room: float) -> list[int]:
    """Return the first columns of rank 0 while they take little of the room; at least one."""
    needed = {columns[n].of for n in extents}
    keys: list[int] = []
    for n in extents:
        is_value = columns[n].rank > 0 or columns[n].of is not None or n in needed
        if keys and (is_value or _least([*keys, n], extents) > _KEYS * room):
            break
        keys.append(n)
    return keys


def _groups(columns: Sequence[Column], rest: Sequence[int]) -> list[list[int]]:
    """Return each column with those that need it, the lowest ranks first."""
    found: dict[int, list[int]] = {}
    for n in rest:
        of = columns[n].of
        found.setdefault(of if of in rest and of is not None else n, []).append(n)
    return sorted(found.values(), key=lambda group: columns[group[0]].rank)


def _band(columns: Sequence[Column], some: Sequence[int], extents: _Extents, room: float) -> Band:
    return Band(tuple(columns[n] for n in some), _shared([extents[n] for n in some], room))


def _shared(extents: Sequence[Extent], room: float) -> tuple[float, ...]:
    """Return widths between least and natural: the widest columns give way first, all to the same width.

    Where not even the least ones have room, each is made narrower by the same factor.
    """
    least = sum(extent.least for extent in extents)
    if least > room:
        return tuple(extent.least * room / least for extent in extents)
    if sum(extent.natural for extent in extents) <= room:
        return tuple(extent.natural for extent in extents)
    low, high = 0.0, max(extent.natural for extent in extents)
    while high - low > _TOLERANCE / len(extents):
        middle = (low + high) / 2.0
        taken = sum(_between(extent, middle) for extent in extents)
        low, high = (middle, high) if taken <= room else (low, middle)
    return tuple(_between(extent, low) for extent in extents)


def _between(extent: Extent, width: float) -> float:
    return max(extent.least, min(extent.natural, width))
