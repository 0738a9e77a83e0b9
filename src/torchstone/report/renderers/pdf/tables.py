"""Tables of pages: upright where they fit, on a turned page where that is wide enough, else in bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torchstone.report.document import Column, Table
from torchstone.report.renderers._bands import Band, Extent, bands
from torchstone.report.renderers._measuring import breakable, extent, glued, in_one_piece
from torchstone.report.renderers._shortening import shortened
from torchstone.report.renderers._typeface import BOLD, typeface
from torchstone.report.translation.spoken import said

Block = dict[str, Any]
ACROSS, TURNED = 493.0, 740.0  # points between the margins of an A4 page, upright and turned
_SIZE, _PADDING = 8.0, 9.0  # points of the text, and beside it in both directions, as in pages.typ
_MOST_ROWS = 500
_FEW = 12  # rows for which no page is turned
_IN_LINE = (115.0, 165.0)  # points of the first columns of a table without titles, in line with its neighbours
_MOST_OF_A_NAME, _MOST_OF_A_CELL = 60, 400  # characters


class Drafting(Protocol):
    """What a block of text needs. `cells_left`: of the whole document."""

    cells_left: int
    files: dict[str, bytes]

    def text(self, text: object, most: int = ...) -> str:
        """Return text of one line in characters that can be drawn."""
        ...


def drafted(table: Table, draft: Drafting) -> Iterator[Block]:
    """Yield the bands of a table, and a line for the rows that are left out."""
    rows = max((len(column.cells) for column in table.columns), default=0)
    shown = min(rows, _MOST_ROWS, draft.cells_left // max(1, len(table.columns)))
    if shown:
        columns = [_shown(column, shown, draft) for column in table.columns]
        found, turned = _bands(columns, shown)
        draft.cells_left = max(0, draft.cells_left - shown * sum(len(band.columns) for band in found))
        for band in found:
            yield _block(band, turned=turned)
    if rows > shown:
        more = said(f"and {rows - shown:,} more row{'s' * (rows - shown != 1)}")
        yield {"kind": "rest", "text": f"{more}: torchstone report --format csv"}


def _shown(column: Column, rows: int, draft: Drafting) -> Column:
    cells = shortened(Column("", column.cells[:rows], shorten=column.shorten), _MOST_OF_A_NAME).cells
    whole = glued if column.left else in_one_piece
    shown = tuple(whole(draft.text(cell, _MOST_OF_A_CELL)) for cell in cells)
    return Column(draft.text(column.title, _MOST_OF_A_CELL), shown, column.rank, column.left, column.of)


def _bands(columns: Sequence[Column], rows: int) -> tuple[list[Band], bool]:
    """Return the bands, and whether their page is turned: where that makes fewer of a long table."""
    upright = bands(columns, ACROSS, _extent)
    if len(upright) == 1 or rows <= _FEW:
        return upright, False
    turned = bands(columns, TURNED, _extent)
    return (turned, True) if len(turned) < len(upright) else (upright, False)


def _extent(column: Column) -> Extent:
    return extent(column.title, column.cells, _head, _body, _PADDING)


def _head(text: str) -> float:
    return typeface(BOLD).width(text, _SIZE)


def _body(text: str) -> float:
    return typeface().width(text, _SIZE)


def _block(band: Band, *, turned: bool) -> Block:
    widths = _in_line(band)
    rooms = [width - _PADDING for width in widths]
    fits = all(
        _body(cell) <= room for one, room in zip(band.columns, rooms, strict=True) for cell in dict.fromkeys(one.cells)
    )
    titles = [breakable(one.title, room, _head) for one, room in zip(band.columns, rooms, strict=True)]
    cells = [
        [breakable(cell, room, _body) for cell in column.cells]
        for column, room in zip(band.columns, rooms, strict=True)
    ]  # fmt: skip
    return {
        "kind": "table", "turned": turned, "titles": titles if any(titles) else [], "widths": widths,
        "one_line_each": fits,
        "right": [not column.left for column in band.columns], "rows": [list(row) for row in zip(*cells, strict=True)],
    }  # fmt: skip


def _in_line(band: Band) -> list[float]:
    """Return the widths, those of a table without titles at least the same as in others."""
    if any(column.title for column in band.columns):
        return list(band.widths)
    wider = [max(width, least) for width, least in zip(band.widths, (*_IN_LINE, *band.widths[2:]), strict=False)]
    return wider if sum(wider) <= ACROSS else list(band.widths)
