"""Whether the pages of a report show what its record gives: each is written again, and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from torchstone.core.errors import MissingError
from torchstone.report.document import Document, Part, Role, Section, Table, Text
from torchstone.report.page_text import PageText, differences, page_text, without_carried, without_pictures
from torchstone.report.rendering import Renderer, formats, renderer

HTML = ".html"


class Told:
    """Collects what is said of a bundle: `faults`, what does not follow; `notes`, what could not be compared."""

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self.notes: dict[str, None] = {}

    def wrong(self, line: str) -> None:
        """Say that something does not follow, once."""
        self.faults[line] = None

    def note(self, line: str) -> None:
        """Say what could not be compared, once."""
        self.notes[line] = None


def check_pages(pages: Mapping[str, bytes], document: Document, told: Told, *, exact: bool) -> None:
    """Compare reports, by the names of their files, with what the Document of their run gives.

    `exact`: they were written by this version of torchstone, so that they can be written again.
    """
    by_suffix = _renderers()
    for name, page in pages.items():
        suffix = PurePosixPath(name).suffix.lower()
        made = _rendered(by_suffix.get(suffix), document, name, told) if exact else None
        if suffix == HTML:
            _check_html(name, page, made, document, told)
        elif made is None:
            told.note(f"{name}: not compared with the record, as its format cannot be written here by the same version")
        elif made != page:
            told.wrong(f"{name}: {_first_line_apart(page, made)}")


def _renderers() -> dict[str, Renderer]:
    found: dict[str, Renderer] = {}
    for name in formats():
        try:
            one = renderer(name)
        except (ImportError, MissingError):  # its library is not installed here
            continue
        found[one.suffix] = one
    return found


def _rendered(one: Renderer | None, document: Document, name: str, told: Told) -> bytes | None:
    if one is None:
        return None
    try:
        return one.render(document)
    except MissingError as fault:
        told.note(f"{name}: {fault}")
        return None


def _check_html(name: str, page: bytes, made: bytes | None, document: Document, told: Told) -> None:
    """Compare a page with the one that the record gives; without one, its headline and tables with the Document's."""
    shown = page_text(page)
    if made is None:
        told.note(f"{name}: its headline and tables were compared with the record, not its other texts and pictures")
        for line in _lacking(shown, document):
            told.wrong(f"{name}: {line}")
        return
    page, made = without_carried(page), without_carried(made)
    if page == made:
        return
    apart = list(differences(shown.texts, page_text(made).texts))
    for line in apart:
        told.wrong(f"{name}: {line}")
    if not apart and without_pictures(page) == without_pictures(made):
        told.note(f"{name}: its pictures are drawn in another way than here, and were not compared")
    elif not apart:
        told.wrong(f"{name}: markup, styles or scripts are not those that this version of torchstone writes")


def _lacking(shown: PageText, document: Document) -> Iterator[str]:
    """Yield which headlines and rows of tables of a Document a page does not show."""
    texts = Counter(one.text for one in shown.texts)
    rows = Counter(shown.rows)
    for headline in (part.text for part in document.parts if isinstance(part, Text) and part.role == Role.HEADLINE):
        if texts[_one_line(headline)] == 0:
            yield f"headline: the record gives “{_one_line(headline)}”, and the page does not show it"
    for table in _tables(document.parts):
        for cells in zip(*(column.cells for column in table.columns), strict=True):
            row = tuple(map(_one_line, cells))
            if rows[row] == 0:
                yield f"table row: the record gives “{' | '.join(row)}”, and the page does not show it"
            rows[row] -= 1


def _tables(parts: tuple[Part, ...]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Table):
            yield part
        elif isinstance(part, Section):
            yield from _tables(part.parts)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text).split())


def _first_line_apart(page: bytes, made: bytes) -> str:
    """Return the first line of a text that is not the one that the record gives; of other files that they differ."""
    try:
        lines = [data.decode("utf-8").splitlines() for data in (page, made)]
    except UnicodeDecodeError:
        return "not the file that the record gives"
    mine, theirs = lines
    for number in range(max(map(len, lines))):
        one, other = (side[number] if number < len(side) else "" for side in (mine, theirs))
        if one != other:
            return f"line {number + 1}: “{one[:120]}”, the record gives “{other[:120]}”"
    return "its line endings are not those that the record gives"
