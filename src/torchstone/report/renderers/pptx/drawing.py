"""Makes the file of a presentation through python-pptx; its slides are drawn in shapes.py."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from torchstone.core.errors import MissingError
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx.flow import TITLE_SIZE
from torchstone.report.renderers.pptx.shapes import draw, emu, fill, style, words
from torchstone.report.renderers.pptx.slide import (
    ACROSS,
    BOTTOM,
    HEIGHT,
    MARGIN,
    TOP,
    WIDTH,
    Box,
    Slide,
    Style,
    Words,
    line_of,
)
from torchstone.report.translation.spoken import said

_TITLE_ONLY = 5  # the number of this layout in python-pptx's own template
_NARROWER = WIDTH / 720.0  # than these slides that template is, which is 4:3 and as high
_TITLE = Box(MARGIN, 22.0, ACROSS, TOP - 30.0)
_TITLE_OF_FIRST = Box(MARGIN, 70.0, ACROSS, 100.0)
_SIZE_OF_FIRST = 26.0
_FOOT = Box(MARGIN, BOTTOM + 12.0, ACROSS, 16.0)
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
        _draw(made, slide, said(f"{number + 1} of {len(slides)}"))
    about = made.core_properties
    about.title, about.author, about.last_modified_by = shortened(line_of(title), 200), "torchstone", "torchstone"
    about.created = about.modified = _TIME.replace(tzinfo=None)
    about.revision = 1
    file = io.BytesIO()
    made.save(file)
    return _without_times(file.getvalue())


def _widen(made: Any) -> None:
    """Make the template 16:9, with its layouts, which people use for slides of their own."""
    made.slide_width, made.slide_height = emu(WIDTH), emu(HEIGHT)
    for page in (made.slide_master, *made.slide_layouts):
        for shape in page.placeholders:
            if shape.element.spPr.xfrm is not None:
                shape.left, shape.width = int(shape.left * _NARROWER), int(shape.width * _NARROWER)


def _draw(made: Any, slide: Slide, number: str) -> None:
    page = made.slides.add_slide(made.slide_layouts[_TITLE_ONLY])
    _title(page.shapes.title, slide)
    for shape in slide.shapes:
        draw(page, shape)
    words(page, Words(_FOOT, number, Style.SMALL), align="RIGHT")
    if slide.notes:
        page.notes_slide.notes_text_frame.text = "\n".join(slide.notes)


def _title(shape: Any, slide: Slide) -> None:
    box = _TITLE_OF_FIRST if slide.first else _TITLE
    shape.left, shape.top, shape.width, shape.height = emu(box.left), emu(box.top), emu(box.width), emu(box.height)
    fill(shape.text_frame, [slide.title], anchor="BOTTOM" if slide.first else "MIDDLE")
    style(shape.text_frame, _SIZE_OF_FIRST if slide.first else TITLE_SIZE, bold=True)


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
