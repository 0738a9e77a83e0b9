"""Sets the pages through typst, which is imported only here. Texts reach it as data, never as its source."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchstone.core.charts.hangul_font import HANGUL_REGULAR
from torchstone.core.errors import MissingError
from torchstone.report.document import Document
from torchstone.report.renderers._typeface import FOLDER
from torchstone.report.renderers.pdf.pages import pages

_TEMPLATE = Path(__file__).with_name("pages.typ")
_STANDARDS = ["ua-1"]  # ISO 14289-1: tags, alt texts, a title and a language
_NO_TIME = 0  # Unix time of a file that is the same whenever it is written


def library() -> Any:
    """Return typst. Raises MissingError, with what to install, where it is not here."""
    try:
        import typst
    except ImportError as fault:
        raise MissingError("PDF needs typst: pip install 'torchstone[report]'") from fault
    return typst


def typeset(document: Document) -> bytes:
    """Return the PDF. Raises MissingError without typst.

    Characters that the shipped typefaces lack are set in a font of this machine; where none has them, as their codes.
    """
    library()
    drawn = pages(document)
    if drawn.lacking and (content := _in_any_font(document)) is not None:
        return content
    return compiled(drawn.files, system_fonts=False)


def _in_any_font(document: Document) -> bytes | None:
    """Return the PDF with the fonts of this machine; None where they lack characters, too, which PDF/UA has not."""
    try:
        return compiled(pages(document, any_font=True).files, system_fonts=True)
    except library().TypstError:
        return None


def compiled(files: Mapping[str, bytes], *, system_fonts: bool) -> bytes:
    """Return the PDF of the template with these files beside it, which is all that typst can read."""
    with tempfile.TemporaryDirectory(prefix="torchstone-") as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        main = folder / "main.typ"
        main.write_bytes(_TEMPLATE.read_bytes())
        made: bytes = library().compile(
            str(main), root=str(folder), format="pdf", font_paths=_fonts(system_fonts=system_fonts),
            pdf_standards=_STANDARDS, timestamp=_NO_TIME,
        )  # fmt: skip
    return made


@cache
def _fonts(*, system_fonts: bool) -> Any:
    """Return the fonts that typst looks into: reading them takes 30 times as long as a page."""
    return library().Fonts(include_system_fonts=system_fonts, font_paths=[str(FOLDER), str(HANGUL_REGULAR.parent)])
