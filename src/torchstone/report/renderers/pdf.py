"""A Document as PDF: A4 pages, tagged for screen readers (PDF/UA-1), with its fonts and attachments in it.

typst, which is imported only here, sets a template that is shipped (_pages.typ). Texts reach it as data, never as its
source; it measures them, breaks lines, columns and tables.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, assert_never

import msgspec

from torchstone.core.charts.drawing import HANGUL_REGULAR, as_svg
from torchstone.core.charts.vega_lite import Spec, vega_lite
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import cut, plain
from torchstone.report.document import (
    Attachment,
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Renderer,
    Section,
    Table,
    Text,
)
from torchstone.report.pictures import parts as parts_of
from torchstone.report.renderers._table import column_width, in_one_piece, shortened, that_fit
from torchstone.report.translation.language import in_language, localized

_Block = dict[str, Any]

_TEMPLATE = Path(__file__).with_name("_pages.typ")
_FONTS = Path(__file__).with_name("_fonts")
_STANDARDS = ["ua-1"]  # ISO 14289-1: tags, alt texts, a title and a language
_NO_TIME = 0  # Unix time of a file that is the same whenever it is written
_DATA = "document.json"
_REST = "The report continues: torchstone report --format md"
_FOLDED = "Not on these pages: {0}. The CSV beside them has the tables, torchstone report --format html all of it"
_MOST_CELLS = 60_000  # of tables, with a fact, a paragraph and a title as one each: a dozen seconds, hundreds of pages
_MOST_CHARACTERS, _MOST_OF_A_TITLE, _MOST_OF_A_NAME, _MOST_OF_A_CELL = 4_000, 300, 60, 400
_LONG, _LONG_IN_TITLES, _LONG_IN_CELLS, _LONG_IN_NAMES = 72, 36, 40, 26  # characters of a word that may break
_FEW_FACTS, _SHORT_FACTS = 12, 1_200  # facts, and characters of their values, that stay on one page
_ACROSS_CHARACTERS = 104  # beside each other on a page
_CROWDED = 0.8  # of these, from which on columns are as wide as their characters
_MOST_ROWS = 500  # of a table
_DEEPEST = 6  # level of a heading
_ACROSS, _TALL = 493.0, 690.0  # points between the margins of an upright page, without the line below a picture
_LOW, _LOWER = 480.0, 312.0  # a picture of less than this height gets that one: two stand on a page
_CELLS = 300  # of a table take as long as a picture
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
_SIZE = re.compile(r"<svg[^>]*?\swidth=\"([\d.]+)[^>]*?\sheight=\"([\d.]+)")
_FONT = re.compile(r"font-family=\"[^\"]*\"")
_OURS = 'font-family="DejaVu Sans, Spoqa Han Sans Neo" font-stretch="condensed"'
# What the shipped fonts have: Latin, Greek, Cyrillic, signs, arrows, boxes; and of Korean the usual syllables.
_HAD = ((0x20, 0x2DF), (0x300, 0x482), (0x2010, 0x205E), (0x2070, 0x209C), (0x20A0, 0x20B5), (0x2190, 0x22FF),
        (0x2500, 0x25FF), (0xAC00, 0xD7A3), (0xFFFD, 0xFFFD))  # fmt: skip
_RIGHT_TO_LEFT = ("R", "AL", "AN")  # these also reorder their neighbours


class _Fonts(Enum):
    """Which characters are set: of any font, of those that are shipped, or the plainest, others as their codes."""

    ANY = "any"
    SHIPPED = "shipped"
    PLAIN = "plain"


class Pdf(Renderer):
    """Pages to print and to mail."""

    describes = "PDF, A4 pages to print and to mail, tagged for screen readers"
    suffix = ".pdf"
    draws = True

    def render(self, document: Document) -> bytes:
        """Return the file. Raises MissingError without typst.

        Characters that the shipped typefaces lack are set in a font of this machine; where none has them, which
        PDF/UA does not permit, as their codes.
        """
        _library()
        draft = _Draft(_Fonts.SHIPPED)
        files = draft.files_of(document)
        if not draft.lacking and (made := _compiled(files, _Fonts.SHIPPED)) is not None:
            return made
        if (made := _compiled(_Draft(_Fonts.ANY).files_of(document), _Fonts.ANY)) is not None:
            return made
        if (made := _compiled(files, _Fonts.SHIPPED)) is not None:
            return made
        return _compile(_Draft(_Fonts.PLAIN).files_of(document), _Fonts.SHIPPED)

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `render` draws of the charts of a Document."""
        return (vega_lite(picture) for chart in charts for picture in parts_of(chart.picture, _ACROSS, _TALL)[0])


# ── typst ───────────────────────────────────────────────────────────────────────────────────────────────────


def _library() -> Any:
    """Return typst. Raises MissingError, with what to install, where it is not here."""
    try:
        import typst
    except ImportError as fault:
        raise MissingError("PDF needs typst: pip install 'torchstone[report]'") from fault
    return typst


def _compiled(files: Mapping[str, bytes], fonts: _Fonts) -> bytes | None:
    """Return the PDF; None where no font has some character."""
    try:
        return _compile(files, fonts)
    except _library().TypstError:
        return None


def _compile(files: Mapping[str, bytes], fonts: _Fonts) -> bytes:
    """Return the PDF of the template with these files beside it, which is all that typst can read."""
    with tempfile.TemporaryDirectory(prefix="torchstone-") as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        main = folder / "main.typ"
        main.write_bytes(_TEMPLATE.read_bytes())
        made: bytes = _library().compile(
            str(main),
            root=str(folder),
            format="pdf",
            font_paths=_fonts(system=fonts == _Fonts.ANY),
            pdf_standards=_STANDARDS,
            timestamp=_NO_TIME,
        )
    return made


@cache
def _fonts(*, system: bool) -> Any:
    """Return the fonts that typst looks into: reading them takes 30 times as long as a page."""
    return _library().Fonts(include_system_fonts=system, font_paths=[str(_FONTS), str(HANGUL_REGULAR.parent)])


# ── the data of the template ────────────────────────────────────────────────────────────────────────────────


class _Draft:
    """Makes blocks, in the order of reading, and keeps what they need beside them: files, how many cells may follow.

    `lacking`: some text has characters of another typeface; `_is_cut`: parts are left out.
    """

    def __init__(self, fonts: _Fonts) -> None:
        self._any_font = fonts == _Fonts.ANY
        self._had = _HAD[:1] if fonts == _Fonts.PLAIN else _HAD
        self.lacking = self._is_cut = False
        self._folded: list[str] = []  # titles of what is not on these pages
        self._files: dict[str, bytes] = {}
        self._cells_left = _MOST_CELLS
        self._attached: set[str] = set()

    def files_of(self, document: Document) -> Mapping[str, bytes]:
        """Return what the template reads, by name."""
        with in_language(document.language):
            title = self._text(document.title, _MOST_OF_A_TITLE) or localized("Report")
            blocks = list(self._blocks(document.parts, 2))
            if self._folded:
                blocks.append({"kind": "rest", "text": localized(_FOLDED, "; ".join(self._folded))})
            if self._is_cut:
                blocks.append({"kind": "rest", "text": localized(_REST)})
            data = {
                "title": title,
                "heading": _breakable(title, _LONG_IN_TITLES),
                "running": title[:90],
                "blocks": blocks,
                "attachments": [self._attachment(number, one) for number, one in enumerate(document.attachments)],
                "language": document.language,
                "note": localized("Note"),
                "page": localized("{0} of {1}"),
            }
        return {_DATA: msgspec.json.encode(data), **self._files}

    def _text(self, text: object, most: int = _MOST_CHARACTERS) -> str:
        """Return text of one line, at most so many characters, which can be drawn."""
        line = cut(plain(text).strip(), most)
        shown = line if line.isascii() else "".join(c if self._has(c) else _code(c) for c in line)
        if shown == line:
            return line
        self.lacking = True
        return line if self._any_font else shown

    def _has(self, character: str) -> bool:
        there = any(first <= ord(character) <= last for first, last in self._had)
        return there and unicodedata.bidirectional(character) not in _RIGHT_TO_LEFT

    def _blocks(self, parts: Sequence[Part], level: int) -> Iterator[_Block]:
        """Yield the blocks of parts below a heading of the level above."""
        titled = False
        for part in parts:
            if self._cells_left <= 0:
                self._is_cut = True
                return
            self._cells_left -= 1
            if titled and not isinstance(part, Section):
                yield {"kind": "gap"}
            titled = isinstance(part, Section) and bool(part.title)
            yield from self._part(part, level)

    def _part(self, part: Part, level: int) -> Iterator[_Block]:
        match part:
            case Text():
                yield {"kind": str(part.role), "text": _breakable(self._text(part.text))}
            case CommandLine():
                yield {"kind": "command", "text": _breakable(self._text(part.words))}
            case Fields():
                yield self._facts(part)
            case Table():
                yield from self._table(part)
            case Chart():
                yield from self._pictures(part)
            case Doubt():
                label = localized("Note" if part.severity == Severity.INFO else str(part.severity).capitalize())
                text = self._text(f"{part.subject}: {part.message}. {part.advice}")
                yield {"kind": "doubt", "severity": str(part.severity), "label": label, "text": _breakable(text)}
            case Section() if part.folded:
                self._folded.append(self._text(part.title))
            case Section():
                if title := _breakable(self._text(part.title, _MOST_OF_A_TITLE), _LONG_IN_TITLES):
                    yield {"kind": "heading", "level": min(level, _DEEPEST), "text": title}
                yield from self._blocks(part.parts, level + 1 if title else level)
            case _:
                assert_never(part)

    def _facts(self, part: Fields) -> _Block:
        rows = part.rows[: self._cells_left]
        self._cells_left -= len(rows)
        self._is_cut = self._is_cut or len(rows) < len(part.rows)
        shown = [
            [
                _breakable(self._text(name, _MOST_OF_A_TITLE), _LONG_IN_NAMES),
                _breakable(self._text(value), 2 * _LONG_IN_NAMES),
            ]
            for name, value in rows
        ]
        together = len(rows) <= _FEW_FACTS and sum(len(value) for _, value in shown) <= _SHORT_FACTS
        return {"kind": "facts", "together": together, "rows": shown}

    def _table(self, table: Table) -> Iterator[_Block]:
        """Yield the columns and rows that fit, and how many are left out."""
        rows = max((len(column.cells) for column in table.columns), default=0)
        shown = min(rows, _MOST_ROWS, self._cells_left // max(1, len(table.columns)))
        if shown:
            columns = [self._column(column, shown) for column in table.columns]
            titled = any(column.title for column in columns)  # the lines of others break
            columns, left_out = that_fit(columns, _ACROSS_CHARACTERS if titled else _MOST_CHARACTERS)
            self._cells_left = max(0, self._cells_left - shown * len(columns))
            yield _grid(columns)
            if left_out:
                yield {
                    "kind": "rest",
                    "text": localized(f"{left_out} more column{'s' * (left_out != 1)} in the CSV beside it"),
                }
        if rows > shown:
            yield {
                "kind": "rest",
                "text": localized(f"{rows - shown:,} more row{'s' * (rows - shown != 1)} in the CSV beside it"),
            }

    def _column(self, column: Column, rows: int) -> Column:
        cells = shortened(Column("", column.cells[:rows], shorten=column.shorten), _MOST_OF_A_NAME).cells
        texts = tuple(self._text(cell, _MOST_OF_A_CELL) for cell in cells)
        texts = texts if column.left else tuple(map(in_one_piece, texts))
        title = self._text(column.title, _MOST_OF_A_CELL)
        return Column(title, texts, column.rank, column.left, column.of)

    def _pictures(self, chart: Chart) -> Iterator[_Block]:
        """Yield a block a page of a picture; where it cannot be drawn, what it shows, and why not."""
        says = self._text(chart.says) or self._text(chart.name) or localized("picture")
        shown, left_out = parts_of(chart.picture, _ACROSS, _TALL)
        try:
            drawn = [as_svg(part) for part in shown]
        except MissingError as fault:
            yield {"kind": "rest", "text": f"{says} ({self._text(localized(str(fault)))})"}
            return
        for number, svg in enumerate(drawn):
            file = f"picture-{len(self._files)}.svg"
            self._files[file] = self._in_typeface(svg).encode()
            self._cells_left = max(0, self._cells_left - _CELLS)
            more = f" ({localized(f'{number + 1} of {len(drawn)}')})" if len(drawn) > 1 else ""
            yield {"kind": "picture", "file": file, "says": f"{says}{more}", "width": _picture_width(svg)}
        if left_out:
            yield {"kind": "rest", "text": localized(f"{left_out:,} more panels of this picture are left out")}

    def _in_typeface(self, svg: str) -> str:
        """Return the picture with all text in the shipped typeface; typst draws no other font's characters."""
        named = _FONT.sub(_OURS, svg)
        return named if named.isascii() else "".join(c if c == "\n" or self._has(c) else _code(c) for c in named)

    def _attachment(self, number: int, attachment: Attachment) -> _Block:
        """Return how a file is attached, and keep it."""
        file = f"attachment-{number}"
        self._files[file] = attachment.content
        name = re.sub(r"[^A-Za-z0-9._-]", "_", attachment.name).strip(".")[-100:] or file
        if name in self._attached:
            name = f"{number}-{name}"
        self._attached.add(name)
        is_known = _MEDIA_TYPE.fullmatch(attachment.media_type) is not None
        return {"file": file, "name": name, "type": attachment.media_type if is_known else "application/octet-stream"}


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _breakable(text: str, long: int = _LONG) -> str:
    """Return a text whose long words may break anywhere, at zero-width spaces; typst breaks none by itself."""
    if len(text) <= long:
        return text
    return " ".join(word if len(word) <= long else "\N{ZERO WIDTH SPACE}".join(word) for word in text.split(" "))


def _grid(columns: Sequence[Column]) -> _Block:
    titles = [_breakable(column.title, _LONG_IN_CELLS) for column in columns]
    rows = zip(*([_breakable(cell, _LONG_IN_CELLS) for cell in column.cells] for column in columns), strict=True)
    return {
        "kind": "table",
        "titles": titles if any(titles) else [],
        "right": [not column.left for column in columns],
        "rows": [list(row) for row in rows],
        "characters": [column_width(column) for column in columns],
        "crowded": _CROWDED * _ACROSS_CHARACTERS,
    }


def _picture_width(svg: str) -> float:
    """Return the width in points in which a picture fits a page: its own, or less."""
    found = _SIZE.search(svg)
    if found is None:
        return _ACROSS
    width, height = float(found[1]), float(found[2])
    most = _LOWER if height < _LOW else _TALL
    return min(width, _ACROSS, width * most / height if height else _ACROSS)


RENDERER = Pdf()
