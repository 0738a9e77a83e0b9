"""Draws slides through python-pptx, which is imported only here."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator, Sequence
from struct import unpack
from typing import Any

from torchstone.core.charts.drawing import as_png
from torchstone.core.errors import MissingError
from torchstone.core.plain_text import plain
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx import tables
from torchstone.report.renderers.pptx.outline import TITLE_SIZE
from torchstone.report.renderers.pptx.slide import (
    ACROSS,
    BOTTOM,
    HEIGHT,
    MARGIN,
    SIZES,
    TOP,
    WIDTH,
    Box,
    Grid,
    Image,
    Slide,
    Style,
    Words,
)

_TITLE_ONLY = 5  # the number of this layout in python-pptx's own template
_NARROWER = WIDTH / 720.0  # than these slides that template is, which is 4:3 and as high
_TITLE = Box(MARGIN, 22.0, ACROSS, TOP - 30.0)
_TITLE_OF_FIRST = Box(MARGIN, 70.0, ACROSS, 100.0)
_SIZE_OF_FIRST = 26.0
_FOOT = Box(MARGIN, BOTTOM + 12.0, ACROSS, 16.0)
_INK, _FAINT, _ALARM = "1F2933", "5B6770", "A35B00"
_MONOSPACED = "Consolas"
_TIME = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)  # of a file that is the same whenever it is written


def library() -> Any:
    """Return python-pptx. Raises MissingError, with what to install, where it is not here."""
    try:
        import pptx
    except ImportError as fault:
        raise MissingError("PowerPoint slides need python-pptx: pip install 'torchstone[report]'") from fault
    return pptx


def presentation(slides: Sequence[Slide], title: str) -> bytes:
    """Return the file. Raises MissingError without python-pptx."""
    made = library().Presentation()
    _widen(made)
    for number, slide in enumerate(slides):
        _draw(made, slide, f"{number + 1} of {len(slides)}")
    about = made.core_properties
    about.title, about.author, about.last_modified_by = shortened(plain(title), 200), "torchstone", "torchstone"
    about.created = about.modified = _TIME.replace(tzinfo=None)
    about.revision = 1
    file = io.BytesIO()
    made.save(file)
    return _without_times(file.getvalue())


def _widen(made: Any) -> None:
    """Make the template 16:9, with its layouts, which people use for slides of their own."""
    made.slide_width, made.slide_height = _emu(WIDTH), _emu(HEIGHT)
    for page in (made.slide_master, *made.slide_layouts):
        for shape in page.placeholders:
            if shape.element.spPr.xfrm is not None:
                shape.left, shape.width = int(shape.left * _NARROWER), int(shape.width * _NARROWER)


def _draw(made: Any, slide: Slide, number: str) -> None:
    page = made.slides.add_slide(made.slide_layouts[_TITLE_ONLY])
    _title(page, slide)
    for shape in slide.shapes:
        match shape:
            case Words():
                _words(page, shape)
            case Grid():
                _grid(page, shape)
            case Image():
                _image(page, shape)
    _words(page, Words(_FOOT, number, Style.SMALL), align="RIGHT")
    if slide.notes:
        page.notes_slide.notes_text_frame.text = "\n".join(slide.notes)


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def _title(page: Any, slide: Slide) -> None:
    title = page.shapes.title
    _place(title, _TITLE_OF_FIRST if slide.first else _TITLE)
    _fill(title.text_frame, [slide.title], anchor="BOTTOM" if slide.first else "MIDDLE")
    _style(title.text_frame, _SIZE_OF_FIRST if slide.first else TITLE_SIZE, bold=True)


def _words(page: Any, words: Words, align: str = "LEFT") -> None:
    box = page.shapes.add_textbox(*map(_emu, (words.box.left, words.box.top, words.box.width, words.box.height)))
    _fill(box.text_frame, [words.label, words.text] if words.label else [words.text], align=align)
    colour = _FAINT if words.style in (Style.SMALL, Style.COMMAND) else _INK
    _style(box.text_frame, SIZES[words.style], bold=words.style in (Style.ANSWER, Style.SUBTITLE), colour=colour)
    runs = box.text_frame.paragraphs[0].runs
    if words.label:
        runs[0].font.bold = True
        runs[0].font.color.rgb = _colour(_FAINT if words.label.startswith("Note") else _ALARM)
    if words.style == Style.COMMAND:
        runs[0].font.name = _MONOSPACED


def _fill(frame: Any, runs: Sequence[str], *, anchor: str = "TOP", align: str = "LEFT") -> None:
    """Put a paragraph into a box that has no margins. `runs`: its parts, each of which may look different."""
    from pptx.enum.text import MSO_AUTO_SIZE, MSO_VERTICAL_ANCHOR

    frame.word_wrap, frame.auto_size = True, MSO_AUTO_SIZE.NONE
    frame.vertical_anchor = MSO_VERTICAL_ANCHOR[anchor]
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    _paragraph(frame, runs, align)


def _paragraph(frame: Any, runs: Sequence[str], align: str) -> None:
    from pptx.enum.text import PP_ALIGN

    paragraph = frame.paragraphs[0]
    paragraph.alignment = PP_ALIGN[align]
    for text in runs:
        paragraph.add_run().text = text


def _style(frame: Any, size: float, *, bold: bool = False, colour: str = _INK) -> None:
    from pptx.enum.lang import MSO_LANGUAGE_ID
    from pptx.util import Pt

    for run in frame.paragraphs[0].runs:
        run.font.size, run.font.bold, run.font.color.rgb = Pt(size), bold, _colour(colour)
        run.font.language_id = MSO_LANGUAGE_ID.ENGLISH_US


# ── tables and pictures ─────────────────────────────────────────────────────────────────────────────────────


def _grid(page: Any, grid: Grid) -> None:
    rows = [grid.titles, *grid.rows] if grid.titles else list(grid.rows)
    box = grid.box
    frame = page.shapes.add_table(len(rows), len(grid.widths), *map(_emu, (box.left, box.top, box.width, box.height)))
    _describe(frame, grid.says)
    table = frame.table
    table.first_row = bool(grid.titles)
    for column, width in zip(table.columns, grid.widths, strict=True):
        column.width = _emu(width)
    for row, height, cells in zip(table.rows, grid.heights, rows, strict=True):
        row.height = _emu(height)
        is_head = cells is grid.titles
        for cell, text, right in zip(row.cells, cells, grid.right, strict=True):
            _cell(cell, text, align="RIGHT" if right else "LEFT", is_head=is_head)


def _cell(cell: Any, text: str, *, align: str, is_head: bool) -> None:
    frame = cell.text_frame
    _paragraph(frame, [text], align)
    _style(frame, tables.SIZE, bold=is_head, colour="FFFFFF" if is_head else _INK)
    cell.margin_left = cell.margin_right = _emu(tables.BESIDE)
    cell.margin_top = cell.margin_bottom = _emu(tables.ABOVE)


def _image(page: Any, image: Image) -> None:
    try:
        png = as_png(image.picture)
    except MissingError as fault:
        _words(page, Words(image.box, f"({fault})", Style.BODY))
        return
    pixels = unpack(">II", png[16:24])  # of the header, which begins every PNG file
    scale = min(image.box.width / pixels[0], image.box.height / pixels[1])
    wide, high = pixels[0] * scale, pixels[1] * scale
    left = image.box.left + (image.box.width - wide) / 2.0
    _describe(page.shapes.add_picture(io.BytesIO(png), *map(_emu, (left, image.box.top, wide, high))), image.says)


def _describe(shape: Any, says: str) -> None:
    """Give a shape its alt text, for which python-pptx has no name."""
    shape._element._nvXxPr.cNvPr.set("descr", says)


# ── the file ────────────────────────────────────────────────────────────────────────────────────────────────


def _place(shape: Any, box: Box) -> None:
    shape.left, shape.top, shape.width, shape.height = map(_emu, (box.left, box.top, box.width, box.height))


def _emu(points: float) -> Any:
    from pptx.util import Pt

    return Pt(points)


def _colour(hexadecimal: str) -> Any:
    from pptx.dml.color import RGBColor

    return RGBColor.from_string(hexadecimal)


def _without_times(file: bytes) -> bytes:
    """Return the archive with the same time at each of its members."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _members(file):
            member = zipfile.ZipInfo(name, _TIME.timetuple()[:6])
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content)
    return made.getvalue()


def _members(file: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)
