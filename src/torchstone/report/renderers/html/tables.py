"""Tables of a page: columns that say something, cells with their marks and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from torchstone.core.units import plain
from torchstone.report.document import Column, Table
from torchstone.report.renderers._table import important_first, says_something
from torchstone.report.translation.language import localized

_MARKS = ("*", "=")  # behind a number: the best of its column, and what is not significantly different from it
# The words of a verdict or status, and the class that gives them their colour; the word stays.
VERDICTS = {
    **dict.fromkeys(("better", "VALID"), "good"),
    **dict.fromkeys(("worse", "INVALID", "OOM", "timeout"), "bad"),
    **dict.fromkeys(("unclear", "not comparable", "SUSPECT"), "open"),
    "same": "even",
}


class ColumnHead(NamedTuple):
    """A column's title. `of`: the place, from 0, of the column without which this one says nothing."""

    title: str
    rank: int
    of: int | None


class Grid(NamedTuple):
    """A table as it is drawn. `left`: classes of the columns that are aligned to the left, "l1 l4"."""

    label: str
    heads: tuple[ColumnHead, ...]
    rows: tuple[tuple[str, ...], ...]
    left: str

    @property
    def titled(self) -> bool:
        """Whether any column has a title."""
        return any(head.title for head in self.heads)


def grid(part: Table, label: str) -> Grid:
    """Return the table. `label`: its name for who cannot see it. A column without a value in any row is left out."""
    kept = [n for n, column in enumerate(part.columns) if column.rank == 0 or says_something(column)]
    kept = [n for n in kept if part.columns[n].of is None or part.columns[n].of in kept]
    of = [part.columns[n].of for n in kept]
    moved = [None if value is None else kept.index(value) for value in of]
    columns = important_first(
        [msgspec.structs.replace(part.columns[n], of=value) for n, value in zip(kept, moved, strict=True)]
    )
    heads = tuple(ColumnHead(c.title, c.rank, c.of) for c in columns)
    titled = any(column.title for column in columns)
    cells = [_cells(c, first=titled and place == 0) for place, c in enumerate(columns)]
    left = " ".join(f"l{place}" for place, column in enumerate(columns, start=1) if column.left)
    return Grid(label, heads, tuple(zip(*cells, strict=True)), left)


def _cells(column: Column, *, first: bool) -> Sequence[str]:
    if first and column.left:  # an empty cell stands for the one above, which a sorted table takes away from it
        return list(accumulate(column.cells, _repeated))
    if column.left:
        words = {**{localized(word): word for word in VERDICTS}, **{word: word for word in VERDICTS}}
        return [_judged(cell, words) for cell in column.cells]
    return [_marked(cell) for cell in column.cells]


def _repeated(above: str, cell: str) -> str:
    return cell or above


def _marked(cell: str) -> str:
    """Return a cell whose mark hangs behind its digits, which stay in line."""
    if len(cell) < 2 or not cell.endswith(_MARKS) or not cell.isprintable():
        return cell
    return Markup("{}<b>{}</b>").format(cell[:-1], cell[-1])


def _judged(cell: str, words: Mapping[str, str]) -> str:
    """Return a cell with its verdict marked. `words`: verdicts as they are said, and the English word of each."""
    word, comma, rest = cell.partition(",")
    return verdict_cell(word, words[word]) + comma + rest if word in words and cell.isprintable() else cell


def verdict_cell(word: str, known: str) -> Markup:
    """Return the word of a verdict, as it is said, with its colour. `known`: the English word."""
    return Markup('<span class="v {}">{}</span>').format(VERDICTS.get(known, "open"), plain(word))
