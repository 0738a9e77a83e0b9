"""Tables of a page: the important columns first, and no more than have room. Widths are counted in characters."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from torchstone.report.document import Column
from torchstone.report.renderers._table import fit_columns

_LONGEST, _NARROWEST = 44, 6  # characters of a column at most, and at least
_BESIDE = 2  # characters between columns
_LONGEST_NUMBER = 24  # characters of a cell that stays in one piece


def that_fit(columns: Sequence[Column], room: int) -> tuple[list[Column], int]:
    """Return the columns that fit into a number of characters, and the number of those that do not."""
    kept, gone = fit_columns(important_first(columns), room, lambda some: sum(map(column_width, some)))
    return kept, sum(one.of is None for one in gone)


def important_first(columns: Sequence[Column]) -> list[Column]:
    """Return the columns by their rank, each interval behind its value: settings, what was asked for, its status."""
    ranked = next((n for n, column in enumerate(columns) if column.rank), len(columns))

    def place(n: int) -> tuple[int, int, int]:
        of = columns[n].of
        value = n if of is None else of
        return columns[value].rank or int(value > ranked), value, n

    order = sorted(range(len(columns)), key=place)
    return [
        msgspec.structs.replace(one, of=None if one.of is None else order.index(one.of))
        for one in (columns[n] for n in order)
    ]


def column_width(column: Column) -> int:
    """Return how many characters wide a column is: its longest cell, a word of its title or half of that."""
    title = max((len(word) + 1 for word in column.title.split()), default=0)  # titles are bold
    longest = max(map(len, column.cells), default=0)
    return min(_LONGEST, max(_NARROWEST, title, longest, ceil(len(column.title) / 2))) + _BESIDE


def in_one_piece(cell: str) -> str:
    """Return the cell of a column of numbers, which has no place to break unless it is a sentence."""
    return cell.replace(" ", "\N{NO-BREAK SPACE}") if len(cell) <= _LONGEST_NUMBER else cell
