"""Tables that are wider than a page: columns without room follow in further bands. Widths are counted in characters."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from torchstone.report.document import Column
from torchstone.report.renderers._table import says_something

_LONGEST, _NARROWEST = 44, 6  # characters of a column at most, and at least
_BESIDE = 2  # characters between columns
_KEYS = 0.35  # of the room, at most, for the columns that stand in every band
_LONGEST_NUMBER = 24  # characters of a cell that stays in one piece


def bands(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """Return columns that stand beside each other: in each band the first ones, which name the rows, others by rank.

    A column without any value is left out, unless it has rank 0. One that needs another (`Column.of`) stands in its
    band.
    """
    told = [n for n, column in enumerate(columns) if column.rank == 0 or says_something(column)]
    told = [n for n in told if columns[n].of is None or columns[n].of in told]
    if not told:
        return []
    keys = _keys(columns, told, room)
    groups: dict[int, list[int]] = {}
    for n in told:
        if n not in keys:
            of = columns[n].of
            groups.setdefault(n if of is None or of in keys else of, []).append(n)
    found: list[list[int]] = [[]]
    for group in sorted(groups.values(), key=lambda group: columns[group[0]].rank):
        if found[-1] and sum(characters(columns[n]) for n in (*keys, *found[-1], *group)) > room:
            found.append([])
        found[-1] += group
    return [[columns[n] for n in sorted({*keys, *band})] for band in found]


def _keys(columns: Sequence[Column], told: Sequence[int], room: int) -> list[int]:
    """Return the first columns of rank 0 while they take little of the room; at least one."""
    needed = {columns[n].of for n in told}
    keys = [told[0]]
    for n in told[1:]:
        is_value = columns[n].rank > 0 or columns[n].of is not None or n in needed
        if is_value or sum(characters(columns[one]) for one in (*keys, n)) > _KEYS * room:
            break
        keys.append(n)
    return keys


def characters(column: Column) -> int:
    """Return how many characters wide a column is: its longest cell, a word of its title or half of that."""
    title = max((len(word) + 1 for word in column.title.split()), default=0)  # titles are bold
    longest = max(map(len, column.cells), default=0)
    return min(_LONGEST, max(_NARROWEST, title, longest, ceil(len(column.title) / 2))) + _BESIDE


def in_one_piece(cell: str) -> str:
    """Return the cell of a column of numbers, which has no place to break unless it is a sentence."""
    return cell.replace(" ", "\N{NO-BREAK SPACE}") if len(cell) <= _LONGEST_NUMBER else cell
