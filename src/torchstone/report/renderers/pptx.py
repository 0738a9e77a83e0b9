"""A Document as slides: 16:9, the answer first, native tables that can be edited, notes that say how it was measured.

A slide has the title of its section, and below it lines of text and tables, or a picture. Lines and rows are counted,
not measured: programs set them in fonts of their own.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby, takewhile, zip_longest
from math import ceil
from struct import unpack
from typing import Any, assert_never

import msgspec

from torchstone.core.charts.drawing import as_png
from torchstone.core.charts.vega_lite import Picture, Spec, vega_lite
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import cut, plain
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Renderer,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.pictures import parts as parts_of
from torchstone.report.renderers._table import column_width, in_one_piece, shortened, that_fit
from torchstone.report.translation.language import current_language, in_language, localized

_WIDTH, _HEIGHT, _MARGIN, _TOP, _BOTTOM, _GAP = 960.0, 540.0, 40.0, 88.0, 500.0, 8.0  # points
_ACROSS, _TALL = _WIDTH - 2 * _MARGIN, _BOTTOM - _TOP
_INK, _FAINT, _ALARM = "1F2933", "5B6770", "A35B00"
_MONOSPACED = "Consolas"
_MOST_SLIDES, _MOST_SLIDES_OF_A_TABLE, _MOST_ROWS, _MOST_ABOUT, _MOST_FIRST = 40, 3, 60, 6, 3
_MOST_CHARACTERS, _MOST_OF_THE_ANSWER, _MOST_OF_A_TITLE = 700, 450, 90
_TITLE_SIZE, _TABLE_SIZE = 24.0, 11.0
_UNITS, _UNIT = 17, 24.0  # lines or rows of a slide, and the points of each
_APART = 0.4  # units between texts and tables
_LEAST = 3  # rows for fewer of which no table is begun on a slide
_IN_A_TABLE, _MOST_OF_A_CELL, _MOST_OF_A_NAME = 130, 200, 40  # characters beside each other, and at most
_NOTHING = "\N{NO-BREAK SPACE}"  # in a cell: a paragraph without text is as tall as one of 18 points
_ALL = "torchstone report --format html"
_REST = f"More is left out here; all of it: {_ALL}"
_TIME = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)  # of a file that is the same whenever it is written
_WITH_BODY, _TITLE_ONLY = 1, 5  # the numbers of these layouts in python-pptx's own template


class _Style(Enum):
    """How a paragraph looks: points, characters of a line, units of a line."""

    ANSWER = (22.0, 62, 1.5)
    BODY = (14.0, 105, 1.0)
    SUBTITLE = (15.0, 90, 1.2)
    COMMAND = (12.0, 115, 1.0)
    SMALL = (11.0, 135, 0.8)


class _Line(msgspec.Struct, frozen=True):
    """A paragraph. `label`: its first words, which stand out."""

    text: str
    style: _Style = _Style.BODY
    label: str = ""

    @property
    def units(self) -> float:
        """The room that it takes."""
        _, characters, units = self.style.value
        return units * ceil(max(1, len(self.label) + len(self.text)) / characters)


class _Grid(msgspec.Struct, frozen=True):
    """A part of a table. `titles`: of its columns; none where it has no head. `widths`: in characters."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[int, ...]
    right: tuple[bool, ...]

    @property
    def heights(self) -> tuple[float, ...]:
        """The units that each row takes, the titles first."""
        rows = (self.titles, *self.rows) if self.titles else self.rows
        return tuple(0.75 * _lines_of(row, self.widths) + 0.25 for row in rows)


class _Slide(msgspec.Struct):
    """A slide before it is made: blocks of lines, and tables, below each other; or a picture with its caption."""

    title: str
    blocks: list[list[_Line] | _Grid]
    notes: list[str]
    picture: Picture | None = None
    caption: str = ""

    @property
    def left(self) -> float:
        """The units that are left below the blocks."""
        return _UNITS - sum(_units(block) + _APART for block in self.blocks)


def _units(block: list[_Line] | _Grid) -> float:
    return sum(block.heights) if isinstance(block, _Grid) else sum(line.units for line in block)


class Pptx(Renderer):
    """Slides to show and to edit."""

    describes = "PowerPoint slides, with tables that can be edited and speaker notes"
    suffix = ".pptx"
    draws = True

    def render(self, document: Document) -> bytes:
        """Return the file. Raises MissingError without python-pptx."""
        with in_language(document.language):
            return _file(_slides(document), document.title)

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `render` draws of the charts of a Document."""
        return (vega_lite(picture) for chart in charts for picture in _pictures(chart)[0])


# ── what stands on which slide ──────────────────────────────────────────────────────────────────────────────


def _slides(document: Document) -> list[_Slide]:
    """Return the slides, 40 at most; the last one then says that there is more.

    Where the answer has a table, both stand on the first, between them what to mind and to type; pictures follow, and
    how it was measured comes last.
    """
    parts = list(_unfolded(document.parts))
    answers = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.HEADLINE, parts))
    rest = parts[len(answers) :]
    table = next((part for part in rest if _has_table(part)), None)
    first: list[Part] = []
    if table is not None:
        at = next(place for place, part in enumerate(rest) if part is table)
        first += [part for part in rest[:at] if not _is_picture(part) and not isinstance(part, Section)][:_MOST_FIRST]
        first += next(([*_leading(rest[:n]), part] for n, part in enumerate(rest) if isinstance(part, CommandLine)), [])
        rest = [part for part in rest if part is not table and not any(part is one for one in first)]
    about: Sequence[Part] = _about(rest)
    if table is not None:
        about = about or [part for part in rest if _is_own_text(part)]
        rest = sorted(rest, key=lambda part: not _is_picture(part))
    deck = _Deck(_line(document.title) or localized("Report"), about)
    for part in (*answers, *(about if table is None else [*first, table])):
        deck.put(part)
    loose: list[Part] = []
    for part in rest:
        if any(part is one for one in about):
            continue
        if isinstance(part, Section) and not part.folded:
            deck.topic(_title_of(loose, document), loose)
            loose = []
            deck.topic(part.title, part.parts)
        else:
            loose.append(part)
    deck.topic(_title_of(loose, document), loose)
    if table is not None:
        deck.topic(localized("How it was measured"), about)
    return deck.ended()


def _leading(parts: Sequence[Part]) -> list[Part]:
    """Return the text that introduces what follows these parts."""
    return [part for part in parts[-1:] if isinstance(part, Text) and part.text.endswith(":")]


def _has_table(part: Part) -> bool:
    if not isinstance(part, Section) or part.folded or _is_picture(part):
        return isinstance(part, Table)
    return any(isinstance(one, Table) for one in part.parts)


def _is_picture(part: Part) -> bool:
    if isinstance(part, Section):
        return not part.folded and any(map(_is_picture, part.parts))
    return isinstance(part, Chart)


def _unfolded(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, those of sections without a title as well."""
    for part in parts:
        if isinstance(part, Section) and not part.title and not part.folded:
            yield from _unfolded(part.parts)
        else:
            yield part


def _about(parts: Sequence[Part]) -> list[Text]:
    """Return texts that stand beside each other: what was measured, on which machine, when and how.

    These are the first two or more without details; else what stands right below the answer.
    """
    groups = [(is_text, list(group)) for is_text, group in groupby(parts, _is_own_text)]
    found: list[Part] = groups[0][1] if groups and groups[0][0] else []
    for (is_text, group), following in zip_longest(groups, groups[1:]):
        if is_text and len(group) > 1 and not (following is not None and _is_detail(following[1][0])):
            found = group
            break
    return [part for part in found[:_MOST_ABOUT] if isinstance(part, Text)]


def _is_detail(part: Part) -> bool:
    return isinstance(part, Text) and part.role == Role.DETAIL


def _is_own_text(part: Part) -> bool:
    """Say whether a part is a text of its own, and does not introduce the next one."""
    return isinstance(part, Text) and part.role == Role.BODY and not part.text.endswith(":")


def _title_of(parts: Sequence[Part], document: Document) -> str:
    if any(isinstance(part, Doubt) for part in parts):
        return localized("Findings")
    is_told = bool(parts) and all(isinstance(part, Text) and part.role == Role.NOTE for part in parts)
    return localized("Notes") if is_told else document.title


class _Deck:
    """Fills slides from their tops. `about`: how it was measured, which the notes of each begin with."""

    def __init__(self, title: str, about: Sequence[Part]) -> None:
        """Begin the first slide, with this title."""
        self._how = (
            [f"{localized('How it was measured')}:", *(_line(one.text) for one in about if isinstance(one, Text))]
            if about
            else []
        )
        self._done: list[_Slide] = []
        self._left_out = self._is_own_text = False  # whether details now belong to a text on the slide
        self._begin(title)

    def topic(self, title: str, parts: Sequence[Part]) -> None:
        """Put parts onto slides of their own."""
        for number, part in enumerate(parts):
            # a section or a picture among them has slides of its own
            if (number == 0 or self._topic != title) and not self._own(title):
                return
            self.put(part)

    def put(self, part: Part) -> None:
        """Put a part below the last one, or onto the next slide."""
        self._is_own_text = isinstance(part, Text) and (
            part.role == Role.BODY or (part.role == Role.DETAIL and self._is_own_text)
        )
        match part:
            case Text():
                self._text(part)
            case CommandLine():
                self._add(_Line(_line(part.words, _MOST_CHARACTERS), _Style.COMMAND))
            case Fields():
                names, values = zip(*part.rows, strict=True) if part.rows else ((), ())
                self._table(Table((Column("", names, left=True), Column("", values, left=True))))
            case Table():
                self._table(part)
            case Chart():
                self._chart(part)
            case Doubt():
                label = localized("Note" if part.severity == Severity.INFO else str(part.severity).capitalize())
                words = _line(f"{part.subject}: {part.message}. {part.advice}", _MOST_CHARACTERS)
                self._add(_Line(words, label=f"{label} "))
            case Section():
                self._section(part)
            case _:
                assert_never(part)

    def ended(self) -> list[_Slide]:
        """Return the slides."""
        self._close()
        if self._left_out:
            self._done.append(_Slide(localized("More"), [[_Line(localized(_REST))]], []))
        return self._done

    def _text(self, part: Text) -> None:
        match part.role:
            case Role.HEADLINE:
                self._add(_Line(_line(part.text, _MOST_OF_THE_ANSWER), _Style.ANSWER))
            case Role.BODY:
                self._add(_Line(_line(part.text, _MOST_CHARACTERS)))
            case Role.NOTE:
                self._add(_Line(_line(part.text, _MOST_CHARACTERS), label=f"{localized('Note')} "))
            case Role.DETAIL:
                self._slide.notes.append(_line(part.text))
                if self._is_own_text:
                    self._add(_Line(_line(part.text, _MOST_CHARACTERS), _Style.SMALL))

    def _section(self, part: Section) -> None:
        if part.folded:
            self._slide.notes.append(f"{localized('Not on these slides')}: {_line(part.title)}: {_ALL}")
            return
        if part.title and any(isinstance(one, Chart) or (isinstance(one, Section) and one.title) for one in part.parts):
            self.topic(part.title, part.parts)
            return
        if part.title:
            self._add(_Line(_line(part.title, _MOST_OF_A_TITLE), _Style.SUBTITLE), below=_LEAST + 2 * _APART)
        for one in part.parts:
            self.put(one)

    def _table(self, table: Table) -> None:
        rows = max((len(column.cells) for column in table.columns), default=0)
        shown = min(rows, _MOST_ROWS, table.most if table.most is not None else rows)
        if shown:
            columns, columns_left = that_fit([_shown(column, shown) for column in table.columns], _IN_A_TABLE)
            grid = _grid(columns)
            if not self._fits(sum(grid.heights[: _LEAST + bool(grid.titles)])):
                return
            parts = _on_slides(grid, self._slide.left - 1, _UNITS - 1)
            for number, part in enumerate(parts[:_MOST_SLIDES_OF_A_TABLE]):
                if number and not self._next():
                    return
                self._slide.blocks.append(part)
            shown -= sum(len(part.rows) for part in parts[_MOST_SLIDES_OF_A_TABLE:])
            if columns_left:
                text = localized(f"{columns_left} more column{'s' * (columns_left != 1)} in the CSV beside it")
                self._add(_Line(text, _Style.SMALL))
        if more := rows - shown:
            self._add(_Line(localized(f"{more:,} more row{'s' * (more != 1)} in the CSV beside it"), _Style.SMALL))

    def _chart(self, part: Chart) -> None:
        """Put a picture onto a slide of its own, which has its title, too."""
        pictures, left_out = _pictures(part)
        for number, picture in enumerate(pictures):
            if not (self._next() if number else self._own(part.picture.title or self._topic)):
                return
            self._slide.picture = picture
            self._slide.caption = _line(part.says or part.name, _MOST_CHARACTERS)
        if left_out:
            self._slide.notes.append(localized(f"{left_out:,} more panels of this picture are left out"))

    # ── slides ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, title: str, *, continued: bool = False) -> None:
        self._topic = title
        shown = _line(title, _MOST_OF_A_TITLE)
        self._slide = _Slide(f"{shown} ({localized('continued')})" if continued else shown, [], [])

    def _is_empty(self) -> bool:
        return not self._slide.blocks and self._slide.picture is None

    def _close(self) -> None:
        if self._is_empty() and self._done:  # an empty slide is none
            self._done[-1].notes += self._slide.notes
        else:
            self._slide.notes[:0] = self._how
            self._done.append(self._slide)

    def _next(self) -> bool:
        """Begin a slide that continues this one. False, and nothing is begun, where there may be none."""
        if len(self._done) >= _MOST_SLIDES - 2:  # the one being filled, and the one that says that there is more
            self._left_out = True
            return False
        self._close()
        self._begin(self._topic, continued=True)
        return True

    def _own(self, title: str) -> bool:
        """Begin a slide of this title, which takes the notes of an empty one. False as of `_next`."""
        empty = self._is_empty() and bool(self._done)
        notes = self._slide.notes if empty else []
        if not empty and not self._next():
            return False
        self._begin(title)
        self._slide.notes = notes
        self._is_own_text = False
        return True

    def _add(self, line: _Line, below: float = 0.0) -> None:
        """Add a line. `below`: the room that has to be left for what it belongs to."""
        if not self._fits(line.units + below):
            return
        blocks = self._slide.blocks
        if blocks and isinstance(last := blocks[-1], list):
            last.append(line)
        else:
            blocks.append([line])

    def _fits(self, units: float) -> bool:
        """Make room, on the next slide if need be. False where there may be none."""
        fits = self._slide.picture is None and units <= self._slide.left
        return fits or self._is_empty() or self._next()


# ── tables and pictures ─────────────────────────────────────────────────────────────────────────────────────


def _line(text: object, most: int | None = None) -> str:
    """Return text of one line that XML can contain, at most so many characters, the last one then an ellipsis."""
    line = plain(text).strip()
    return line if most is None else cut(line, most)


def _shown(column: Column, rows: int) -> Column:
    whole = Column("", tuple(_line(cell) for cell in column.cells[:rows]), shorten=column.shorten)
    cells = tuple(_line(cell, _MOST_OF_A_CELL) for cell in shortened(whole, _MOST_OF_A_NAME).cells)
    if not column.left:
        cells = tuple(map(in_one_piece, cells))
    return msgspec.structs.replace(column, title=_line(column.title, _MOST_OF_A_CELL), cells=cells)


def _grid(columns: Sequence[Column]) -> _Grid:
    titles = tuple(column.title for column in columns)
    rows = tuple(zip(*(column.cells for column in columns), strict=True))
    widths = [column_width(column) for column in columns]
    widths[0] += max(0, _IN_A_TABLE - sum(widths)) if len(columns) == 1 else 0
    right = tuple(not column.left for column in columns)
    return _Grid(titles if any(titles) else (), rows, tuple(widths), right)


def _lines_of(cells: Sequence[str], widths: Sequence[int]) -> int:
    return max(ceil(max(1, len(cell)) / (width - 1)) for cell, width in zip(cells, widths, strict=True))


def _on_slides(grid: _Grid, first: float, others: float) -> list[_Grid]:
    """Return the rows of a grid in parts that fill slides: so many units of the first, so many of the others."""
    found: list[list[tuple[str, ...]]] = [[]]
    head, heights = (grid.heights[0], grid.heights[1:]) if grid.titles else (0.0, grid.heights)
    room = first - head
    for row, units in zip(grid.rows, heights, strict=True):
        if found[-1] and units > room:
            found.append([])
            room = others - head
        room -= units
        found[-1].append(row)
    return [msgspec.structs.replace(grid, rows=tuple(rows)) for rows in found]


def _pictures(chart: Chart) -> tuple[list[Picture], int]:
    """Return a picture of a slide each, whose title the slide has, and how many panels are left out."""
    whole = chart.picture
    if whole.title:
        whole = msgspec.structs.replace(whole, title=whole.subtitle, subtitle="")
    return parts_of(whole, _ACROSS, _TALL - 2 * _UNIT)


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


def _library() -> Any:
    """Return python-pptx. Raises MissingError, with what to install, where it is not here."""
    try:
        import pptx
    except ImportError as fault:
        raise MissingError("PowerPoint slides need python-pptx: pip install 'torchstone[report]'") from fault
    return pptx


def _file(slides: Sequence[_Slide], title: str) -> bytes:
    made = _library().Presentation()
    _widen(made)
    for number, slide in enumerate(slides, 1):
        _draw(made, slide, localized(f"{number} of {len(slides)}"))
    about = made.core_properties
    about.title, about.author, about.last_modified_by = _line(title, 200), "torchstone", "torchstone"
    about.created = about.modified = _TIME.replace(tzinfo=None)
    about.revision = 1
    file = io.BytesIO()
    made.save(file)
    return _without_times(file.getvalue())


def _widen(made: Any) -> None:
    """Make the template, which is 4:3, 16:9, with its layouts, which people use for slides of their own."""
    wider = _emu(_WIDTH) / made.slide_width
    made.slide_width, made.slide_height = _emu(_WIDTH), _emu(_HEIGHT)
    for page in (made.slide_master, *made.slide_layouts):
        for shape in page.placeholders:
            if shape.element.spPr.xfrm is not None:
                shape.left, shape.width = int(shape.left * wider), int(shape.width * wider)
    for shape in made.slide_master.placeholders:
        if shape.placeholder_format.idx < 2:  # title and body, which the layouts follow
            top, high = (22.0, _TOP - 30.0) if shape.placeholder_format.idx == 0 else (_TOP, _TALL)
            _place(shape, _MARGIN, top, _ACROSS, high)


def _draw(made: Any, slide: _Slide, number: str) -> None:
    first = slide.blocks[0] if slide.blocks else None
    page = made.slides.add_slide(made.slide_layouts[_WITH_BODY if isinstance(first, list) else _TITLE_ONLY])
    _fill(page.shapes.title.text_frame, [_Line(slide.title, _Style.SUBTITLE)], size=_TITLE_SIZE, anchor="MIDDLE")
    top = _TOP
    for block in slide.blocks:
        high = _UNIT * _units(block)
        if isinstance(block, _Grid):
            _table(page, block, top, f"{slide.title}: {localized(f'a table of {len(block.rows)} rows')}")
        elif block is first:
            body = page.placeholders[1]
            _place(body, _MARGIN, top, _ACROSS, _TALL if len(slide.blocks) == 1 else high)
            _fill(body.text_frame, block)
        else:
            _words(page, block, top, high)
        top += high + _UNIT * _APART
    if slide.picture is not None:
        _image(page, slide.picture, slide.caption)
        _words(page, [_Line(slide.caption, _Style.SMALL)], _BOTTOM - _UNIT, _UNIT)
    _words(page, [_Line(number, _Style.SMALL)], _BOTTOM + 12.0, _UNIT, "RIGHT")
    if slide.notes:
        page.notes_slide.notes_text_frame.text = "\n".join(slide.notes)


def _words(page: Any, lines: Sequence[_Line], top: float, high: float, align: str = "LEFT") -> None:
    box = page.shapes.add_textbox(*map(_emu, (_MARGIN, top, _ACROSS, high)))
    _fill(box.text_frame, lines, align=align)


def _fill(
    frame: Any, lines: Sequence[_Line], *, size: float | None = None, anchor: str = "TOP", align: str = "LEFT"
) -> None:
    """Put paragraphs into a box, where programs make them smaller if it is full. `size`: other than of their styles."""
    from pptx.enum.text import MSO_AUTO_SIZE, MSO_VERTICAL_ANCHOR

    frame.word_wrap, frame.auto_size = True, MSO_AUTO_SIZE.TEXT_TO_FIT_SHAPE
    frame.vertical_anchor = MSO_VERTICAL_ANCHOR[anchor]
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    for number, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
        parts = [line.text] if line.style == _Style.COMMAND else coded(line.text)
        runs = _paragraph(paragraph, [line.label, *parts] if line.label else parts, align)
        is_bold, is_faint = line.style in (_Style.ANSWER, _Style.SUBTITLE), line.style in (_Style.SMALL, _Style.COMMAND)
        for run in runs:
            _style(run, size or line.style.value[0], bold=is_bold, colour=_FAINT if is_faint else _INK)
        if line.label:
            _style(
                runs[0],
                line.style.value[0],
                bold=True,
                colour=_FAINT if line.label == f"{localized('Note')} " else _ALARM,
            )
        for run in runs if line.style == _Style.COMMAND else runs[1 + bool(line.label) :: 2]:
            run.font.name = _MONOSPACED


def coded(text: str) -> list[str]:
    """Return the parts of a text of which every second one stood between backticks: what is typed."""
    parts = text.split("`")
    return parts if len(parts) % 2 else [text]


def _paragraph(paragraph: Any, texts: Sequence[str], align: str) -> list[Any]:
    """Fill a paragraph, which has no bullet in any layout, and return its runs."""
    from pptx.enum.text import PP_PARAGRAPH_ALIGNMENT
    from pptx.oxml.ns import qn
    from pptx.util import Pt

    paragraph.alignment = PP_PARAGRAPH_ALIGNMENT[align]
    paragraph.space_before = Pt(3)
    properties = paragraph._p.get_or_add_pPr()
    properties.set("marL", "0")
    properties.set("indent", "0")
    properties.append(properties.makeelement(qn("a:buNone"), {}))
    for text in texts:
        paragraph.add_run().text = text
    return list(paragraph.runs)


def _style(run: Any, size: float, *, bold: bool, colour: str) -> None:
    from pptx.dml.color import RGBColor
    from pptx.enum.lang import MSO_LANGUAGE_ID
    from pptx.util import Pt

    run.font.size, run.font.bold, run.font.color.rgb = Pt(size), bold, RGBColor.from_string(colour)
    run.font.language_id = MSO_LANGUAGE_ID.KOREAN if current_language() == "ko" else MSO_LANGUAGE_ID.ENGLISH_US


def _table(page: Any, grid: _Grid, top: float, says: str) -> None:
    rows = [grid.titles, *grid.rows] if grid.titles else list(grid.rows)
    most = min(_ACROSS, sum(grid.widths) * _ACROSS / _IN_A_TABLE)
    heights = [_UNIT * units for units in grid.heights]
    frame = page.shapes.add_table(len(rows), len(grid.widths), *map(_emu, (_MARGIN, top, most, sum(heights))))
    _describe(frame, says)
    frame.table.first_row = bool(grid.titles)
    for column, width in zip(frame.table.columns, grid.widths, strict=True):
        column.width = _emu(most * width / sum(grid.widths))
    for row, height, cells in zip(frame.table.rows, heights, rows, strict=True):
        row.height = _emu(height)
        is_head = cells is grid.titles
        for cell, text, right in zip(row.cells, cells, grid.right, strict=True):
            cell.margin_left = cell.margin_right = _emu(5.0)
            cell.margin_top = cell.margin_bottom = _emu(2.0)
            (run,) = _paragraph(cell.text_frame.paragraphs[0], [text or _NOTHING], "RIGHT" if right else "LEFT")
            _style(run, _TABLE_SIZE, bold=is_head, colour="FFFFFF" if is_head else _INK)


def _image(page: Any, picture: Picture, says: str) -> None:
    try:
        png = as_png(picture)
    except MissingError as fault:
        _words(page, [_Line(f"({localized(str(fault))})")], _TOP, _UNIT)
        return
    pixels = unpack(">II", png[16:24])  # of the header, which begins every PNG file
    scale = min(_ACROSS / pixels[0], (_TALL - _UNIT - _GAP) / pixels[1])
    wide, high = pixels[0] * scale, pixels[1] * scale
    left = _MARGIN + (_ACROSS - wide) / 2.0
    _describe(page.shapes.add_picture(io.BytesIO(png), *map(_emu, (left, _TOP, wide, high))), says)


def _describe(shape: Any, says: str) -> None:
    """Give a shape its alt text, for which python-pptx has no name."""
    shape._element._nvXxPr.cNvPr.set("descr", says)


def _place(shape: Any, left: float, top: float, width: float, height: float) -> None:
    shape.left, shape.top, shape.width, shape.height = map(_emu, (left, top, width, height))


def _emu(points: float) -> Any:
    """Return a length in the unit of the file, 1/12,700 of a point."""
    from pptx.util import Pt

    return Pt(points)


def _without_times(file: bytes) -> bytes:
    """Return the archive with the same time at each of its members."""
    import zipfile

    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as read, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in read.namelist():
            member = zipfile.ZipInfo(name, _TIME.timetuple()[:6])
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, read.read(name))
    return made.getvalue()


RENDERER = Pptx()
