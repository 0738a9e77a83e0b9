"""Tables of slides: bands of columns, and of each as many rows as there is room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchstone.report.document import Column, Facts, Table
from torchstone.report.renderers import _shortening
from torchstone.report.renderers._bands import Band, Extent, bands
from torchstone.report.renderers._measuring import extent, glued, in_one_piece, lines
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx.slide import ACROSS, BOLDER, LINE_HEIGHT, MARGIN, Box, Grid, dealt, line_of, width

SIZE = 11.0  # points
BESIDE, ABOVE = 5.0, 3.0  # points around the text of a cell
_MOST_OF_A_NAME, _MOST_OF_A_CELL = 40, 240  # characters
_MOST_ROWS = 60  # of one table, on all its slides


class Rows(msgspec.Struct, frozen=True):
    """A band of a table before its rows are dealt out to slides. `heights`: the titles first, if there are any."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    heights: tuple[float, ...]
    right: tuple[bool, ...]

    @property
    def head(self) -> float:
        """The height of the titles, which stand on each slide."""
        return self.heights[0] if self.titles else 0.0


def banded(table: Table) -> tuple[list[Rows], int]:
    """Return the bands of a table, and how many of its rows are left out."""
    rows = max((len(column.cells) for column in table.columns), default=0)
    shown = min(rows, _MOST_ROWS, table.most if table.most is not None else rows)
    columns = [_shown(column, shown) for column in table.columns]
    return [_rows(band) for band in bands(columns, ACROSS, _extent)] if shown else [], rows - shown


def of_facts(facts: Facts) -> Table:
    """Return the table of facts, which has no titles."""
    names, values = zip(*facts.rows, strict=True) if facts.rows else ((), ())
    return Table((Column("", names, left=True), Column("", values, left=True)))


def on_slides(rows: Rows, first: float, others: float) -> Iterator[Rows]:
    """Yield the rows in parts: the first one of at most a height, the others of another."""
    heights = rows.heights[bool(rows.titles) :]
    for begin, end in dealt(heights, first - rows.head, others - rows.head):
        shown = (rows.head, *heights[begin:end]) if rows.titles else heights[begin:end]
        yield msgspec.structs.replace(rows, rows=rows.rows[begin:end], heights=shown)


def least(rows: Rows) -> float:
    """Return the height of the titles and the first three rows, for fewer of which no slide is begun."""
    return sum(rows.heights[: 3 + bool(rows.titles)])


def grid(rows: Rows, top: float, says: str) -> Grid:
    """Return the table at a height of its slide."""
    box = Box(MARGIN, top, sum(rows.widths), sum(rows.heights))
    return Grid(box, rows.titles, rows.rows, rows.widths, rows.heights, rows.right, says)


def _shown(column: Column, rows: int) -> Column:
    whole = Column("", tuple(line_of(cell) for cell in column.cells[:rows]), shorten=column.shorten)
    named = _shortening.shortened(whole, _MOST_OF_A_NAME).cells
    joined = glued if column.left else in_one_piece
    cells = tuple(joined(shortened(cell, _MOST_OF_A_CELL)) for cell in named)
    title = shortened(line_of(column.title), _MOST_OF_A_CELL)
    return Column(title, cells, column.rank, column.left, column.of)


def _rows(band: Band) -> Rows:
    titles = tuple(column.title for column in band.columns)
    rows = tuple(zip(*(column.cells for column in band.columns), strict=True))
    heights = tuple(_height(row, band.widths, 1.0) for row in rows)
    if any(titles):
        heights = (_height(titles, band.widths, BOLDER), *heights)
    right = tuple(not column.left for column in band.columns)
    return Rows(titles if any(titles) else (), rows, band.widths, heights, right)


def _height(cells: Sequence[str], widths: Sequence[float], bolder: float) -> float:
    most = max(
        lines(cell, across - 2 * BESIDE, lambda word: bolder * width(word, SIZE))
        for cell, across in zip(cells, widths, strict=True)
    )
    return most * LINE_HEIGHT * SIZE + 2 * ABOVE


def _extent(column: Column) -> Extent:
    return extent(
        column.title, column.cells, lambda text: BOLDER * width(text, SIZE), lambda text: width(text, SIZE),
        2 * BESIDE + 1.0,
    )  # fmt: skip
