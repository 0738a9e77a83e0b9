"""The tables of a Document as CSV (RFC 4180), for spreadsheets. Figures of each trial: `torchstone export`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from torchstone.core.units import plain
from torchstone.report.document import Document, Doubt, Fields, Part, Renderer, Section, Table

_FORMULA = tuple("=+-@＝＋－＠")  # what spreadsheets begin a formula with; some take the wide forms, too
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?( ?(%|[A-Za-zµ]+(/[A-Za-z]+)?))?", re.IGNORECASE)
_JOINT = " > "  # between the titles of sections

_Rows = Iterator[Sequence[str]]


class Csv(Renderer):
    """Tables, each below a line with its titles."""

    describes = "CSV for spreadsheets: the tables of the report, each below a line with its title"
    suffix = ".csv"

    def render(self, document: Document) -> bytes:
        """Return the file, in UTF-8 with a byte order mark, by which spreadsheets know that it is."""
        file = io.StringIO()
        written = csv.writer(file, lineterminator="\r\n")
        written.writerow([f"# {_line(document.title)}"])
        if document.headline is not None:
            written.writerow([f"# {_line(document.headline)}"])
        for row in _rows(document.parts, ()):
            written.writerow(row)
        return file.getvalue().encode("utf-8-sig")


def _rows(parts: Sequence[Part], titles: Sequence[str]) -> _Rows:
    for part in parts:
        if isinstance(part, Section):
            title = _line(part.title)
            yield from _rows(part.parts, (*titles, title) if title else titles)
        elif isinstance(part, Table) and part.columns:
            yield from _titled(titles)
            if any(column.title for column in part.columns):
                yield [_cell(column.title) for column in part.columns]
            yield from ([_cell(cell) for cell in row] for row in zip(*(c.cells for c in part.columns), strict=True))
        elif isinstance(part, Doubt):
            yield [str(part.severity), _cell(part.subject), _cell(part.message), _cell(part.advice)]
        elif isinstance(part, Fields):
            yield from _titled(titles)
            yield from ([_cell(name), _cell(value)] for name, value in part.rows)


def _titled(titles: Sequence[str]) -> _Rows:
    yield []
    yield [f"# {_JOINT.join(titles)}".rstrip()]


def _line(text: object) -> str:
    return plain(text).strip()


def _cell(text: object) -> str:
    """Return a text that no spreadsheet takes for a formula: behind an apostrophe where it looks like one."""
    line = _line(text)
    return f"'{line}" if line.startswith(_FORMULA) and not _NUMBER.fullmatch(line) else line


RENDERER = Csv()
