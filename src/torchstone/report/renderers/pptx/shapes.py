"""Draws the shapes of a slide through python-pptx: paragraphs, native tables and pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from struct import unpack
from typing import Any

from torchstone.core.charts.drawing import as_png
from torchstone.core.errors import MissingError
from torchstone.report.renderers.pptx import tables
from torchstone.report.renderers.pptx.slide import SIZES, Box, Grid, Image, Shape, Style, Words
from torchstone.report.translation.spoken import said, spoken

INK, _FAINT, _ALARM = "1F2933", "5B6770", "A35B00"
_NOTHING = "\N{NO-BREAK SPACE}"  # in a cell: a paragraph without text is as tall as one of 18 points
_MONOSPACED = "Consolas"


def draw(page: Any, shape: Shape) -> None:
    """Add a shape to a slide of python-pptx."""
    match shape:
        case Words():
            words(page, shape)
        case Grid():
            _grid(page, shape)
        case Image():
            _image(page, shape)


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────


def words(page: Any, shown: Words, *, align: str = "LEFT", anchor: str = "TOP", colour: str | None = None) -> None:
    """Add a paragraph. `colour`: other than that of its style."""
    box = page.shapes.add_textbox(*_emus(shown.box))
    parts = [shown.text] if shown.style == Style.COMMAND else coded(shown.text)
    fill(box.text_frame, [shown.label, *parts] if shown.label else parts, anchor=anchor, align=align)
    usual = _FAINT if shown.style in (Style.SMALL, Style.COMMAND) else INK
    is_bold = shown.style in (Style.ANSWER, Style.SUBTITLE)
    style(box.text_frame, SIZES[shown.style], bold=is_bold, colour=colour or usual)
    runs = box.text_frame.paragraphs[0].runs
    if shown.label:
        runs[0].font.bold = True
        runs[0].font.color.rgb = _colour(_FAINT if shown.label.startswith(said("Note")) else _ALARM)
    for run in runs if shown.style == Style.COMMAND else runs[1 + bool(shown.label) :: 2]:
        run.font.name = _MONOSPACED


def coded(text: str) -> list[str]:
    """Return the parts of a text of which every second one stood between backticks: what is typed."""
    parts = text.split("`")
    return parts if len(parts) % 2 else [text]


def fill(frame: Any, runs: Sequence[str], *, anchor: str = "TOP", align: str = "LEFT") -> None:
    """Put a paragraph into a box that has no margins. `runs`: its parts, each of which may look different."""
    from pptx.enum.text import MSO_AUTO_SIZE, MSO_VERTICAL_ANCHOR

    frame.word_wrap, frame.auto_size = True, MSO_AUTO_SIZE.NONE
    frame.vertical_anchor = MSO_VERTICAL_ANCHOR[anchor]
    frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
    _paragraph(frame, runs, align)


def _paragraph(frame: Any, runs: Sequence[str], align: str) -> None:
    from pptx.enum.text import PP_PARAGRAPH_ALIGNMENT

    paragraph = frame.paragraphs[0]
    paragraph.alignment = PP_PARAGRAPH_ALIGNMENT[align]
    for text in runs:
        paragraph.add_run().text = text


def style(frame: Any, size: float, *, bold: bool = False, colour: str = INK) -> None:
    """Give the first paragraph of a box a size in points and a colour."""
    from pptx.enum.lang import MSO_LANGUAGE_ID
    from pptx.util import Pt

    language = MSO_LANGUAGE_ID.KOREAN if spoken() == "ko" else MSO_LANGUAGE_ID.ENGLISH_US
    for run in frame.paragraphs[0].runs:
        run.font.size, run.font.bold, run.font.color.rgb = Pt(size), bold, _colour(colour)
        run.font.language_id = language


# ── tables and pictures ─────────────────────────────────────────────────────────────────────────────────────


def _grid(page: Any, grid: Grid) -> None:
    rows = [grid.titles, *grid.rows] if grid.titles else list(grid.rows)
    frame = page.shapes.add_table(len(rows), len(grid.widths), *_emus(grid.box))
    _describe(frame, grid.says)
    table = frame.table
    table.first_row = bool(grid.titles)
    for column, width in zip(table.columns, grid.widths, strict=True):
        column.width = emu(width)
    for row, height, cells in zip(table.rows, grid.heights, rows, strict=True):
        row.height = emu(height)
        is_head = cells is grid.titles
        for cell, text, right in zip(row.cells, cells, grid.right, strict=True):
            _cell(cell, text, align="RIGHT" if right else "LEFT", is_head=is_head)


def _cell(cell: Any, text: str, *, align: str, is_head: bool) -> None:
    frame = cell.text_frame
    _paragraph(frame, [text or _NOTHING], align)
    style(frame, tables.SIZE, bold=is_head, colour="FFFFFF" if is_head else INK)
    cell.margin_left = cell.margin_right = emu(tables.BESIDE)
    cell.margin_top = cell.margin_bottom = emu(tables.ABOVE)


def _image(page: Any, image: Image) -> None:
    try:
        png = as_png(image.picture)
    except MissingError as fault:
        words(page, Words(image.box, f"({said(str(fault))})", Style.BODY))
        return
    pixels = unpack(">II", png[16:24])  # of the header, which begins every PNG file
    scale = min(image.box.width / pixels[0], image.box.height / pixels[1])
    wide, high = pixels[0] * scale, pixels[1] * scale
    left = image.box.left + (image.box.width - wide) / 2.0
    box = Box(left, image.box.top, wide, high)
    _describe(page.shapes.add_picture(io.BytesIO(png), *_emus(box)), image.says)


def _describe(shape: Any, says: str) -> None:
    """Give a shape its alt text, for which python-pptx has no name."""
    shape._element._nvXxPr.cNvPr.set("descr", says)


# ── units ───────────────────────────────────────────────────────────────────────────────────────────────────


def emu(points: float) -> Any:
    """Return a length in the unit of the file, 1/12,700 of a point."""
    from pptx.util import Pt

    return Pt(points)


def _emus(box: Box) -> tuple[Any, Any, Any, Any]:
    return emu(box.left), emu(box.top), emu(box.width), emu(box.height)


def _colour(hexadecimal: str) -> Any:
    from pptx.dml.color import RGBColor

    return RGBColor.from_string(hexadecimal.upper())
