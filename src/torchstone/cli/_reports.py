"""Reports and pictures as files: of `report`, `compare --format` and `--plots`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.own_files import write_whole

if TYPE_CHECKING:
    from torchstone.analysis.compare.compare import ComparisonRequest
    from torchstone.analysis.compare.inputs import ComparedInput
    from torchstone.report.document import Document, Renderer
    from torchstone.report.pictures import Specifications
    from torchstone.storage.place import Place


def add_plots(parser: argparse.ArgumentParser | argparse._ArgumentGroup, where: str = "there") -> None:
    """Add --plots."""
    parser.add_argument("--plots", type=Path, metavar="DIR", help=f"write each picture as SVG and PNG {where}")


def check_writable(folder: Path) -> None:
    """Raise UsageError where nothing can be written into a folder, which need not be there: before it is made."""
    try:
        nearest = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
        writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    except OSError as fault:
        raise UsageError(f"cannot write into {folder}: {fault.strerror}") from None
    if not writable:
        raise UsageError(f"cannot write into {folder}: {nearest} is {'read-only' if nearest.is_dir() else 'a file'}")


def write_file(path: Path, data: bytes, below: Path) -> Path:
    """Write a file, its folders too, through no link `below` a folder, and return its path.

    Raises UsageError where it cannot be written.
    """
    try:
        return write_whole(path, data, below)
    except OSError as fault:
        raise UsageError(f"cannot write into {path.parent}: {fault.strerror}") from None


def write_and_list_plots(document: Document, folder: Path) -> None:
    """Write every picture as SVG and PNG, and print which files those are on stderr.

    Raises UsageError where the folder cannot be written, MissingError without vl-convert.
    """
    from torchstone.report.translation.documents import in_spoken_language

    files = [write_file(path, data, folder) for path, data in _drawn(in_spoken_language(document), folder).items()]
    print("\n".join(map(str, files)) or "torchstone: --plots: nothing to draw", file=sys.stderr)


def _drawn(document: Document, folder: Path) -> dict[Path, bytes]:
    from torchstone.report.pictures import drawn

    return {folder / name: data for name, data in drawn(document).items()}


def require_drawing() -> None:
    """Raise MissingError without vl-convert: before anything is measured."""
    from torchstone.core.charts.drawing import import_vl_convert

    import_vl_convert()


_LINKED = "md"  # pictures are files beside it: without them it has no place for any
_SHORT = ("pdf", "pptx")  # tables that do not fit are in the CSV beside them


class ReportOptions(NamedTuple):
    """How reports are made. `carried`: with their records; `drawing`: what the formats draw of charts."""

    carried: bool
    drawing: Sequence[Specifications]


class Folders(NamedTuple):
    """Where reports go, and their pictures, if they are asked for. `by_user`: what the user named, links too."""

    reports: Path
    plots: Path | None
    by_user: Sequence[Path | None]


def write_reports(
    documents_of: Callable[[ReportOptions], Mapping[str, Document]],
    named: Sequence[str],
    there: Folders,
    *,
    records: bool,
) -> list[Path]:
    """Make every report, then write the files and return them: nothing is written where one cannot be made.

    `documents_of`: by what their files are called. `named`: the formats. `records`: HTML carries the records.
    """
    from torchstone.core.charts.drawing import drawing_elsewhere
    from torchstone.report.carried import CARRYING
    from torchstone.report.rendering import renderer

    with_links = ["csv"] if any(name in named for name in _SHORT) else []
    renderers = {name: renderer(name) for name in (*named, *with_links)}
    carried = records and any(one.suffix in CARRYING for one in renderers.values())
    for written_to in (there.reports, there.plots or there.reports):
        check_writable(written_to)
    every = [*renderers.values(), *([renderer("png")] if there.plots is not None else [])]
    how = ReportOptions(carried, [one.specifications for one in every if one.draws])
    with drawing_elsewhere() if how.drawing else nullcontext():
        files = _files(documents_of(how), renderers, there.reports, there.plots)
    trusted = [one for one in there.by_user if one is not None]
    return [
        write_file(path, data, next(one for one in trusted if path.is_relative_to(one))) for path, data in files.items()
    ]


def _files(
    documents: Mapping[str, Document], renderers: Mapping[str, Renderer], there: Path, plots: Path | None
) -> dict[Path, bytes]:
    """Return the files of all reports by their paths. `plots`: the folder of the pictures, if they are asked for."""
    from torchstone.report.rendering import FOR_PROGRAMS, rendered_files
    from torchstone.report.translation.documents import in_spoken_language

    files: dict[Path, bytes] = {}
    for stem, english in documents.items():
        document = in_spoken_language(english)
        beside = plots / stem if plots is not None and len(documents) > 1 else plots
        if beside is not None:
            if not (pictures := _drawn(document, beside)):
                raise UsageError("--plots: the run has nothing to draw; `torchstone show` says what it has")
            files |= pictures
        for name, one in renderers.items():
            shown = document
            if name == _LINKED and beside is not None:
                from torchstone.report.pictures import with_links

                shown = with_links(document, quote(Path(os.path.relpath(beside, there)).as_posix()))
            elif name == _LINKED:
                drawn, shown = _first_drawn(document, stem)
                files |= {there / path: data for path, data in drawn.items()}
            made = rendered_files(one, english if name in FOR_PROGRAMS else shown, stem)
            files |= {there / path: data for path, data in made.items()}
    return files


def compared_report(
    participants: Sequence[ComparedInput], comparing: ComparisonRequest, place: Place, how: ReportOptions
) -> dict[str, Document]:
    """Return the one report that compares all, by what its file is called. Raises UsageError as `compare` does."""
    from torchstone.report.documents.comparison import compared_document
    from torchstone.report.pictures import begin_drawing, file_name
    from torchstone.report.several import carrying_compared

    document = compared_document(participants, comparing)
    begin_drawing(document.parts, how.drawing)
    document = carrying_compared(document, participants, comparing, place) if how.carried else document
    newest = "_".join(dict.fromkeys(one.runs[-1].head.run_id for one in participants))
    return {file_name(f"comparison_{newest}"): document}


def _first_drawn(document: Document, stem: str) -> tuple[Mapping[str, bytes], Document]:
    """Return the file of the picture that a Document is about, if it can be drawn, and the Document with that alone."""
    from torchstone.report.pictures import drawn, first_chart, with_links, without_charts

    alone = without_charts(document, but=first_chart(document))
    folder = f"{stem}_pictures"
    try:
        files = drawn(alone, (".svg",))
    except MissingError:
        return {}, without_charts(document)
    return {f"{folder}/{name}": data for name, data in files.items()}, with_links(alone, quote(folder))
