"""Whether the files of a report show what its record gives: each is written again, and compared."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.plain_text import plain
from torchstone.report.attached import embedded
from torchstone.report.document import Document, Part, Role, Section, Table, Text
from torchstone.report.page_text import (
    PageText,
    differences,
    page_text,
    without_carried,
    without_drawings,
    without_figures,
)
from torchstone.report.release_files import FIGURES, REPORTS, figure_files, is_report, report_files
from torchstone.report.rendering import Renderer, formats, renderer

HTML, PICTURES = "html", "vl-convert-python"  # a format, and the library that draws for all of them


class Told:
    """Collects what is said of a bundle.

    `faults`: what does not follow; `notes`: what could not be compared; `seen`: the files of which something is said.
    """

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.seen: set[str] = set()

    def wrong(self, line: str) -> None:
        """Say that something does not follow, once. The line may quote a stranger."""
        self.faults[plain(line)] = None

    def note(self, line: str) -> None:
        """Say what could not be compared, once."""
        self.notes[plain(line)] = None


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
    """A run of a bundle: the Document of its report, and the files that pages carry of it."""

    run_id: str
    document: Document
    carried: Mapping[str, bytes]


def check_page(name: str, page: bytes, run: Reported, written: Written, told: Told) -> None:
    """Compare an HTML report with what the record of its run gives."""
    made = None
    if written.version is None and (one := _renderers(told).get(HTML)) is not None:
        files = _made(one, run, name, told, pictured=True)
        made = next(iter(files.values()), None) if files is not None else None
    try:
        if made is None:
            _compare_answers(name, page_text(page), run.document, told)
        else:
            _compare_pages(name, page, made, told, pictures=written.drawing is None)
    except UsageError as fault:
        told.wrong(f"{name}: {fault}")


def check_reports(files: Mapping[str, bytes], run: Reported, written: Written, told: Told) -> None:
    """Compare the reports and figures of a run in a release with what its record gives."""
    alike = _check_figures(files, run, written, told)
    pictured = any(name.startswith(f"{FIGURES}/{run.run_id}/") for name in files)
    for format_name, one in _renderers(told).items():
        there = {name: data for name, data in files.items() if is_report(one, run.run_id, name)}
        if there and format_name != HTML:
            _check_format(there, one, run, written, told, pictured=pictured, alike=alike)
    page = f"{REPORTS}/{run.run_id}.{HTML}"
    if page in files:
        told.seen.add(page)
        check_page(page, files[page], run, written, told)
        for line in _of_carried(files[page], run):
            told.wrong(f"{page}: {line}")


def _check_format(
    there: Mapping[str, bytes], one: Renderer, run: Reported, written: Written, told: Told, *, pictured: bool,
    alike: bool,
) -> None:  # fmt: skip
    """Compare what one format has of a report. `alike`: what is drawn here comes out as it did there."""
    told.seen.update(there)
    first = next(iter(there))
    if written.version is not None:
        told.note(f"{first}: not compared with the record: {written.version}")
        return
    made = _made(one, run, first, told, pictured=pictured)
    if made is None:
        return
    for name in dict.fromkeys((*made, *there)):
        if name not in there:
            told.wrong(f"{name} is missing")
        elif name not in made:
            told.wrong(f"{name}: the record gives no such picture")
        elif not _is_same(there[name], made[name]):
            line = first_line_apart(there[name], made[name])
            if line is not None:
                told.wrong(f"{name}: {line}")
            elif alike and not written.libraries:
                told.wrong(f"{name}: not the file that the record gives")
            else:
                made_with = ", ".join(written.libraries.values())
                why = f"drawn with {made_with}" if made_with else "pictures are laid out differently here (fonts)"
                told.note(f"{name}: not compared with the record: {why}")


def _renderers(told: Told) -> dict[str, Renderer]:
    """Return the formats that can be written here, by name."""
    found: dict[str, Renderer] = {}
    for name in formats():
        try:
            found[name] = renderer(name)
        except ImportError as fault:  # of a library that the format needs
            told.note(f"reports as {name} not compared: {fault}")
    return found


def _made(one: Renderer, run: Reported, name: str, told: Told, *, pictured: bool) -> Mapping[str, bytes] | None:
    """Return the files of a report as the record gives them; None, with a note, where a library is missing."""
    try:
        return report_files(one, run.document, run.run_id, run.carried, pictured=pictured)
    except MissingError as fault:
        told.note(f"{name}: not compared with the record: {fault}")
        return None


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────


def _compare_pages(name: str, page: bytes, made: bytes, told: Told, *, pictures: bool) -> None:
    """Compare a page with the one that the record gives. `pictures`: those are drawn by the same libraries here."""
    page, made = without_carried(page), without_carried(made)
    if page == made:
        return
    shown, expected = (page_text(one, pictures=pictures) for one in (page, made))
    apart = list(differences(shown.texts, expected.texts))
    if not apart and shown.marks != expected.marks:
        apart = ["pictures: not the values that the record gives"]
    if not apart and not pictures and without_figures(page) == without_figures(made):
        told.note(f"{name}: its pictures, and what stands beside them, were not compared: other libraries draw here")
    elif not apart and pictures and without_drawings(page) == without_drawings(made):
        told.note(f"{name}: its pictures are laid out differently here (fonts); their texts and values were compared")
    elif not apart:
        apart = ["markup, styles or scripts are not those that this version of torchstone writes"]
    for line in apart:
        told.wrong(f"{name}: {line}")


def _compare_answers(name: str, shown: PageText, document: Document, told: Told) -> None:
    """Look for the headlines and the rows of the tables of a Document in a page that cannot be written again here."""
    told.note(f"{name}: its headline and tables were compared with the record, not its other texts and pictures")
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


def _of_carried(page: bytes, run: Reported) -> Iterator[str]:
    """Yield which files a page of a release carries that are not those of the release."""
    try:
        found = embedded(page)
    except UsageError as fault:
        yield str(fault)
        return
    for one in found:
        name, content = one.attachment.name, one.attachment.content
        if not one.agrees or (name in run.carried and run.carried[name] != content):
            yield f"the {name} that it carries is not that of the release"


# ── other files ─────────────────────────────────────────────────────────────────────────────────────────────


def _check_figures(files: Mapping[str, bytes], run: Reported, written: Written, told: Told) -> bool:
    """Compare the figures of a run; return whether what is drawn here comes out as it did there."""
    there = {name: data for name, data in files.items() if name.startswith(f"{FIGURES}/{run.run_id}/")}
    told.seen.update(there)
    apart = written.version or written.drawing
    if not there or apart is not None:
        for name in there:
            told.note(f"{name}: not compared with the record: {apart}")
        return apart is None
    try:
        made = figure_files(run.document, run.run_id)
    except MissingError as fault:
        told.note(f"{FIGURES}: not compared with the record: {fault}")
        return False
    for name in sorted(made.keys() - there.keys()):
        told.wrong(f"{name} is missing")
    alike = [_is_figure(name, data, made.get(name), told) for name, data in there.items()]  # each is looked at
    return all(alike)


def _is_figure(name: str, data: bytes, made: bytes | None, told: Told) -> bool:
    """Compare one picture; return whether it is drawn alike here."""
    if made is None:
        told.wrong(f"{name}: the record gives no such picture")
    elif data != made:
        try:
            shown, expected = page_text(data), page_text(made)
        except UsageError as fault:
            told.wrong(f"{name}: {fault}")
            return False
        apart = list(differences(shown.texts, expected.texts))
        if not apart and shown.marks != expected.marks:
            apart = ["not the values that the record gives"]
        for line in apart:
            told.wrong(f"{name}: {line}")
        if not apart:
            told.note(f"{name}: laid out differently here (fonts); its texts and values were compared")
    return data == made


def _is_same(file: bytes, made: bytes) -> bool:
    """Say whether two files are the same; of ZIP files, as slides are, whether their contents are."""
    if file == made or not made.startswith(b"PK\x03\x04"):
        return file == made
    try:
        with zipfile.ZipFile(io.BytesIO(file)) as one, zipfile.ZipFile(io.BytesIO(made)) as other:
            if one.namelist() != other.namelist():
                return False
            return all(_beginning(one, name, len(data := other.read(name))) == data for name in other.namelist())
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError):  # a stranger's
        return False


def _beginning(archive: zipfile.ZipFile, name: str, length: int) -> bytes:
    """Return what a member of an archive has, and no more than one byte more than that length."""
    with archive.open(name) as file:
        return file.read(length + 1)


def first_line_apart(page: bytes, made: bytes) -> str | None:
    """Return the first line of a text that is not the one that the record gives; None for files that are no texts."""
    try:
        mine, theirs = (data.decode("utf-8").splitlines() for data in (page, made))
    except UnicodeDecodeError:
        return None
    for number in range(max(len(mine), len(theirs))):
        one, other = (side[number] if number < len(side) else "" for side in (mine, theirs))
        if one != other:
            return f"line {number + 1}: “{one[:120]}”, the record gives “{other[:120]}”"
    return "its line endings are not those that the record gives"
