"""Whether the files of a release show what its records give: reports in every format, and figures."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.report.attached import embedded
from torchstone.report.markup import foreign_drawing, shape, without_numbers
from torchstone.report.page_checks import (
    HTML,
    LAID_OUT,
    Reported,
    Told,
    Written,
    check_page,
    made_again,
    renderers_here,
)
from torchstone.report.page_text import differences, page_text, same_beginning
from torchstone.report.release_files import FIGURES, REPORTS, figure_files, is_report
from torchstone.report.rendering import FOR_PROGRAMS, Renderer

_ZIP = b"PK\x03\x04"
_KIND = 4  # bytes that tell what a file is: %PDF, \x89PNG
_MOST_SLIDE = 16 * 2**20
_SLIDE_TEXT = re.compile(rb"<(?:\w+:)?t\b[^>]*>[^<]*|\bTarget=\"[^\"]*\"|\bdescr=\"[^\"]*\"")
_UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError)


def check_reports(files: Mapping[str, bytes], run: Reported, written: Written, told: Told) -> None:
    """Compare the reports and figures of a run in a release with what its record gives."""
    alike = _check_figures(files, run, written, told)
    pictured = any(name.startswith(f"{FIGURES}/{run.run_id}/") for name in files)
    for format_name, one in renderers_here(told).items():
        there = {name: data for name, data in files.items() if is_report(one, run.run_id, name)}
        if there and format_name != HTML:
            shown = run if format_name not in FOR_PROGRAMS else msgspec.structs.replace(run, shown=run.document)
            _check_format(there, one, shown, written, told, pictured=pictured, alike=alike)
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
    made = made_again(one, run, first, told, pictured=pictured)
    if made is None:
        for name in there:
            _leave(name, "it cannot be written here", told)
        return
    for name in dict.fromkeys((*made, *there)):
        if name in there and name in made and _is_same(there[name], made[name]):
            continue
        if written.version is not None:
            if name in there:
                told.leave(name, f"{written.version}, and not as this version writes it")
        elif name not in there:
            told.wrong(f"{name} is missing")
        elif name not in made:
            told.wrong(f"{name}: the record gives no such picture")
        elif (line := first_line_apart(there[name], made[name])) is not None:
            told.wrong(f"{name}: {line}")
        elif written.libraries:
            _leave(name, f"drawn with {', '.join(written.libraries.values())}", told)
        elif alike:
            told.wrong(f"{name}: not the file that the record gives")
        else:
            _check_drawn_apart(name, there[name], made[name], told)


def _check_drawn_apart(name: str, file: bytes, made: bytes, told: Told) -> None:
    """Compare what can be of a PDF, slides or a picture of points that other fonts lay out: its kind, and its texts."""
    if file[:_KIND] != made[:_KIND]:
        told.wrong(f"{name}: not a file of its kind")
    elif made.startswith(_ZIP) and _slide_texts(file) != _slide_texts(made):
        told.wrong(f"{name}: its texts are not those that the record gives")
    else:
        _leave(name, "pictures are laid out differently here (fonts)", told)


def _leave(name: str, why: str, told: Told) -> None:
    told.leave(name, f"not compared with the record: {why}")


def _slide_texts(file: bytes) -> dict[str, list[bytes]] | None:
    """Return the texts of slides, by the names of their members; None for a file that cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(file)) as packed:
            return {
                name: _SLIDE_TEXT.findall(_beginning(packed, name, _MOST_SLIDE))
                for name in packed.namelist() if name.endswith((".xml", ".rels"))
            }  # fmt: skip
    except _UNREADABLE:  # a stranger's
        return None


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


def _check_figures(files: Mapping[str, bytes], run: Reported, written: Written, told: Told) -> bool:
    """Compare the figures of a run; return whether what is drawn here comes out as it did there."""
    there = {name: data for name, data in files.items() if name.startswith(f"{FIGURES}/{run.run_id}/")}
    told.seen.update(there)
    apart, made = written.version or written.drawing, dict[str, bytes]()
    if there:
        try:
            made = dict(figure_files(run.shown, run.run_id))
        except MissingError as fault:
            apart = apart or str(fault)
    if apart is None:
        for name in sorted(made.keys() - there.keys()):
            told.wrong(f"{name} is missing")
    for name, data in there.items():
        if data != made.get(name):
            _check_figure(name, data, made.get(name), apart, told)
    return all(data == made.get(name) for name, data in there.items())


def _check_figure(name: str, data: bytes, made: bytes | None, apart: str | None, told: Told) -> None:
    """Compare a picture that is not drawn alike here. `apart`: why it may be another one; None where it may not."""
    try:
        lines = list(foreign_drawing(data))
        if not lines and apart is None:
            lines = list(_of_figure(data, made)) if made is not None else ["the record gives no such picture"]
    except UsageError as fault:
        lines = [str(fault)]
    for line in lines:
        told.wrong(f"{name}: {line}")
    if not lines:
        if apart is None:
            told.leave(name, LAID_OUT)
        else:
            _leave(name, apart, told)


def _of_figure(data: bytes, made: bytes) -> Iterator[str]:
    """Yield in a line each what of a picture is not as the record gives it, but for where fonts place it."""
    shown, expected = page_text(data), page_text(made)
    if shown.texts != expected.texts:
        yield from differences(shown.texts, expected.texts)
    elif shown.marks != expected.marks:
        yield "not the values that the record gives"
    elif shape(data) != shape(made) or without_numbers(data) != without_numbers(made):
        yield "its elements are not those that the record gives"


def _is_same(file: bytes, made: bytes) -> bool:
    """Say whether two files are the same; of ZIP files, as slides are, whether their contents are."""
    if file == made or not made.startswith(_ZIP):
        return file == made
    try:
        with zipfile.ZipFile(io.BytesIO(file)) as one, zipfile.ZipFile(io.BytesIO(made)) as other:
            if one.namelist() != other.namelist():
                return False
            return all(_beginning(one, name, len(data := other.read(name))) == data for name in other.namelist())
    except _UNREADABLE:  # a stranger's
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
            same = same_beginning(one, other)
            return f"line {number + 1}: “{_around(one, same)}”, the record gives “{_around(other, same)}”"
    return "its line endings are not those that the record gives"


def _around(line: str, place: int) -> str:
    """Return what stands around a place of a line."""
    first = max(0, place - 40)
    return f"{'…' * (first > 0)}{line[first : place + 80]}{'…' * (len(line) > place + 80)}"
