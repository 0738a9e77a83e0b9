"""Whether an HTML report shows what the record of its run gives: it is written again, and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.plain_text import plain
from torchstone.report.document import Document, Part, Role, Section, Table, Text
from torchstone.report.markup import foreign, shape
from torchstone.report.page_text import (
    PageText,
    differences,
    language_of,
    page_text,
    without_carried,
    without_drawings,
)
from torchstone.report.release_files import report_files
from torchstone.report.rendering import Renderer, formats, renderer
from torchstone.report.translation.catalogue import languages
from torchstone.report.translation.documents import translated

HTML, PICTURES = "html", "vl-convert-python"  # a format, and the library that draws for all of them
LAID_OUT = "its pictures are laid out differently here (fonts); only their texts, values and elements were compared"


class Told:
    """Collects what is said of a bundle.

    `faults`: what does not follow; `notes`: what else is to be known; `uncompared`: the files that were not compared
    with the record, or only in part; `seen`: the files of which something is said.
    """

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.uncompared: dict[str, None] = {}
        self.seen: set[str] = set()

    def wrong(self, line: str) -> None:
        """Say that something does not follow, once. The line may quote a stranger."""
        self.faults[plain(line)] = None

    def note(self, line: str) -> None:
        """Say what else is to be known, once."""
        self.notes[plain(line)] = None

    def leave(self, name: str, why: str) -> None:
        """Say which file was not compared, or not the whole of it, and why."""
        self.uncompared[plain(name)] = None
        self.note(f"{name}: {why}")


class Written(msgspec.Struct, frozen=True):
    """How what a report was written with differs from what is here, in words; None where it does not.

    `version`: of torchstone; `libraries`: of each of those that draw, by its name, where it is another one here.
    """

    version: str | None
    libraries: Mapping[str, str]

    @property
    def drawing(self) -> str | None:
        """How the library that draws pictures differs."""
        return f"drawn with {self.libraries[PICTURES]}" if PICTURES in self.libraries else None


class Reported(msgspec.Struct, frozen=True):
    """A run of a bundle: the Document of its report, and the files that pages carry of it.

    `shown`: the Document in the language of the report.
    """

    run_id: str
    document: Document
    shown: Document
    carried: Mapping[str, bytes]


def check_page(name: str, page: bytes, run: Reported, written: Written, told: Told) -> None:
    """Compare an HTML report, in its language, with what the record of its run gives."""
    if (language := language_of(page)) in languages():
        run = msgspec.structs.replace(run, shown=translated(run.document, language))
    files = None
    if (one := renderers_here(told).get(HTML)) is not None:
        files = made_again(one, run, name, told, pictured=True)
    made = next(iter(files.values()), None) if files is not None else None
    try:
        for line in foreign(page, made):
            told.wrong(f"{name}: {line}")
        apart = _of_page(name, page, made, told, pictures=written.drawing is None) if made is not None else []
        if written.version is None:
            for line in apart:
                told.wrong(f"{name}: {line}")
        elif apart:
            count = f"{len(apart)} difference{'s' * (len(apart) != 1)}"
            told.leave(name, f"{written.version}, and not as this version writes it ({count}, the first: {apart[0]})")
        if made is None or (apart and written.version is not None):
            _compare_answers(name, page_text(page), run.shown, told)
    except UsageError as fault:
        told.wrong(f"{name}: {fault}")


def renderers_here(told: Told) -> dict[str, Renderer]:
    """Return the formats that can be written here, by name."""
    found: dict[str, Renderer] = {}
    for name in formats():
        try:
            found[name] = renderer(name)
        except ImportError as fault:  # of a library that the format needs
            told.note(f"reports as {name} not compared: {fault}")
    return found


def made_again(one: Renderer, run: Reported, name: str, told: Told, *, pictured: bool) -> Mapping[str, bytes] | None:
    """Return the files of a report as the record gives them; None, with a note, where a library is missing."""
    try:
        return report_files(one, run.shown, run.run_id, run.carried, pictured=pictured)
    except MissingError as fault:
        told.leave(name, f"not compared with the record: {fault}")
        return None


def _of_page(name: str, page: bytes, made: bytes, told: Told, *, pictures: bool) -> list[str]:
    """Return in a line each where a page is not the one that the record gives.

    `pictures`: those are drawn by the same libraries here.
    """
    page, made = without_carried(page), without_carried(made)
    if page == made:
        return []
    shown, expected = (page_text(one, pictures=pictures) for one in (page, made))
    apart = list(differences(shown.texts, expected.texts))
    if not apart and shown.marks != expected.marks:
        apart = ["pictures: not the values that the record gives"]
    same = not apart and shape(page, pictures=pictures) == shape(made, pictures=pictures)
    if same and not pictures:
        told.leave(name, "its pictures, and what stands beside them, were not compared: other libraries draw here")
    elif same and without_drawings(page) == without_drawings(made):
        told.leave(name, LAID_OUT)
    elif not apart:
        apart = ["markup, styles or scripts are not those that this version of torchstone writes"]
    return apart


def _compare_answers(name: str, shown: PageText, document: Document, told: Told) -> None:
    """Look for the headlines and the rows of the tables of a Document in a page that cannot be written again here."""
    told.leave(name, "its headline and tables were compared with the record, not its other texts and pictures")
    texts, rows = Counter(one.text for one in shown.texts), Counter(shown.rows)
    for headline in (part.text for part in document.parts if isinstance(part, Text) and part.role == Role.HEADLINE):
        if texts[_one_line(headline)] == 0:
            told.wrong(f"{name}: headline: the record gives “{_one_line(headline)}”, and the page does not show it")
    for table in _tables(document.parts):
        for cells in zip(*(column.cells for column in table.columns), strict=True):
            row = tuple(map(_one_line, cells))
            if rows[row] == 0:
                line = f"the record gives “{' | '.join(row)}”, and the page does not show it"
                told.wrong(f"{name}: table row: {line}")
            rows[row] -= 1


def _tables(parts: tuple[Part, ...]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Table):
            yield part
        elif isinstance(part, Section):
            yield from _tables(part.parts)


def _one_line(text: str) -> str:
    return plain(" ".join(text.split()))
