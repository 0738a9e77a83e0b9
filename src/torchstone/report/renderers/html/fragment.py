"""A Document as a part of another page, as a notebook shows it: no script, no style of the page around it, bounded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from torchstone.core.units import cut
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers.html.charts import Drawings
from torchstone.report.renderers.html.layout import laid_out
from torchstone.report.renderers.html.page import asset, of_columns, ours, templates_of
from torchstone.report.translation.language import in_language, localized

_CHARACTERS = 40_000  # of all texts and cells: a notebook keeps what it shows in its file
_A_PART, _A_CELL = 60, 15  # characters of the markup around them
_MOST_TEXT, _MOST_CELL = 1_000, 200
_MOST_ROWS, _MOST_COLUMNS, _MOST_FACTS = 30, 24, 30
_MOST_PANELS = 8  # that are drawn
_MOST_BYTES = 600_000  # with drawings; of more, the drawings are left out
_LEVEL = 4  # of the first headings: those above are the notebook's


def fragment(document: Document) -> str:
    """Return the Document as an HTML element: the answer first, tables and pictures bounded, all of it escaped.

    Two fragments may stand on one page. Without vl-convert pictures are tables of their values. Raises ImportError
    without Jinja2.
    """
    with in_language(document.language):
        text = _drawn(_Room(_MOST_PANELS).bounded(document))
        return text if len(text.encode()) <= _MOST_BYTES else _drawn(_Room(0).bounded(document))


def _drawn(document: Document) -> str:
    digest = hashlib.sha256(msgspec.json.encode(document)).hexdigest()
    drawings = Drawings(f"ts{digest[:10]}-", other_axes=0, rows=_MOST_ROWS)
    laid = laid_out(document, drawings, _LEVEL)
    style = f"{asset('fragment.css')}.torchstone-result {{\n{of_columns(laid.columns, '& ')}}}\n"
    return templates_of().get_template("fragment.html").render(document=document, laid=laid, style=ours(style))


class _Room:
    """What is left of the characters and drawings that a fragment has room for."""

    def __init__(self, panels: int) -> None:
        self._panels = panels
        self._characters = _CHARACTERS
        self._left_out = 0  # parts

    def bounded(self, document: Document) -> Document:
        """Return the Document without what does not fit, which its last line tells."""
        parts = list(self._parts(document.parts))
        if self._left_out:
            parts.append(Text(localized("Left out here: {0} more parts.", self._left_out), Role.DETAIL))
        return Document(cut(document.title, _MOST_CELL), tuple(parts), language=document.language)

    def _parts(self, parts: Sequence[Part]) -> Iterator[Part]:
        for part in parts:
            if self._characters <= 0 or (isinstance(part, Chart) and self._panels <= 0):
                self._left_out += 1
                continue
            self._characters -= _A_PART
            if isinstance(part, Section):
                yield msgspec.structs.replace(
                    part, title=self._text(part.title, _MOST_CELL), parts=tuple(self._parts(part.parts))
                )
            elif isinstance(part, Table):
                yield from self._table(part)
            else:
                yield self._one(part)

    def _one(self, part: Text | CommandLine | Fields | Chart | Doubt) -> Part:
        match part:
            case Text():
                return msgspec.structs.replace(part, text=self._text(part.text))
            case CommandLine():
                return CommandLine(self._text(part.words))
            case Fields():
                rows = part.rows[:_MOST_FACTS]
                return Fields(tuple((self._text(name, _MOST_CELL), self._text(value)) for name, value in rows))
            case Doubt():
                subject, message = self._text(part.subject, _MOST_CELL), self._text(part.message)
                return Doubt(part.severity, subject, message, self._text(part.advice))
            case Chart():
                panels = part.picture.panels[: self._panels]
                self._panels -= len(panels)
                picture = msgspec.structs.replace(part.picture, panels=panels)
                return msgspec.structs.replace(part, says=self._text(part.says), picture=picture)

    def _table(self, part: Table) -> Iterator[Part]:
        columns = part.columns[:_MOST_COLUMNS]
        rows = len(columns[0].cells) if columns else 0
        affordable = max(1, self._characters // (_A_CELL * max(1, len(columns))))
        shown = min(rows, _MOST_ROWS, affordable)
        yield Table(tuple(self._column(one, shown) for one in columns))
        lost_rows, lost_columns = rows - shown, len(part.columns) - len(columns)
        if lost_rows and lost_columns:
            yield Text(localized("and {0} more rows and {1} more columns", lost_rows, lost_columns), Role.DETAIL)
        elif lost_rows:
            yield Text(localized("and {0} more rows", lost_rows), Role.DETAIL)
        elif lost_columns:
            yield Text(localized("and {0} more columns", lost_columns), Role.DETAIL)

    def _column(self, one: Column, rows: int) -> Column:
        self._characters -= _A_CELL * rows
        cells = tuple(self._text(cell, _MOST_CELL) for cell in one.cells[:rows])
        return msgspec.structs.replace(one, title=self._text(one.title, _MOST_CELL), cells=cells)

    def _text(self, text: str, most: int = _MOST_TEXT) -> str:
        found = cut(text, most)
        self._characters -= len(found)
        return found
