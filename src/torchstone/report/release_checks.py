"""Whether the files of a release show what its records give: reports in every format, and figures."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.report.attached import embedded
from torchstone.report.page_checks import HTML, Reported, Told, Written, check_page, made_again, renderers_here
from torchstone.report.page_text import differences, page_text, same_beginning
from torchstone.report.release_files import FIGURES, REPORTS, figure_files, is_report
from torchstone.report.rendering import FOR_PROGRAMS, Renderer


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
    if written.version is not None:
        told.note(f"{first}: not compared with the record: {written.version}")
        return
    made = made_again(one, run, first, told, pictured=pictured)
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
    apart = written.version or written.drawing
    if not there or apart is not None:
        for name in there:
            told.note(f"{name}: not compared with the record: {apart}")
        return apart is None
    try:
        made = figure_files(run.shown, run.run_id)
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
            same = same_beginning(one, other)
            return f"line {number + 1}: “{_around(one, same)}”, the record gives “{_around(other, same)}”"
    return "its line endings are not those that the record gives"


def _around(line: str, place: int) -> str:
    """Return what stands around a place of a line."""
    first = max(0, place - 40)
    return f"{'…' * (first > 0)}{line[first : place + 80]}{'…' * (len(line) > place + 80)}"
