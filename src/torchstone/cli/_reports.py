"""Reports as files: made by `report`, and by `compare --format`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from torchstone.cli._plots import check_folder, write_file
from torchstone.core.errors import MissingError, UsageError
from torchstone.report.rendering import FOR_PROGRAMS, DrawingRenderer, Renderer, files_of, renderer

if TYPE_CHECKING:
    from torchstone.analysis.compare.compare import Asked
    from torchstone.analysis.compare.inputs import ComparedInput
    from torchstone.report.document import Document
    from torchstone.report.pictures import Specifications
    from torchstone.storage.place import Place

_LINKED = "md"  # pictures are files beside it: without them it has no place for any
_SHORT = ("pdf", "pptx")  # tables that do not fit are in the CSV beside them


class Made(NamedTuple):
    """How reports are made. `carried`: with their records; `drawing`: what the formats draw of charts."""

    carried: bool
    drawing: Sequence[Specifications]


class Folders(NamedTuple):
    """Where reports go, and their pictures, if they are asked for. `by_user`: what the user named, links too."""

    reports: Path
    plots: Path | None
    by_user: Sequence[Path | None]


def write_reports(
    documents_of: Callable[[Made], Mapping[str, Document]], named: Sequence[str], there: Folders, *, records: bool
) -> list[Path]:
    """Make every report, then write the files and return them: nothing is written where one cannot be made.

    `documents_of`: by what their files are called. `named`: the formats. `records`: HTML carries the records.
    """
    from torchstone.core.charts.drawing import drawing_elsewhere
    from torchstone.report.carried import CARRYING

    beside = ["csv"] if any(name in named for name in _SHORT) else []
    renderers = {name: renderer(name) for name in (*named, *beside)}
    carried = records and any(one.suffix in CARRYING for one in renderers.values())
    for written_to in (there.reports, there.plots or there.reports):
        check_folder(written_to)
    every = [*renderers.values(), *([renderer("png")] if there.plots is not None else [])]
    how = Made(carried, [one.specifications for one in every if isinstance(one, DrawingRenderer)])
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
    from torchstone.report.translation.documents import in_spoken_language

    files: dict[Path, bytes] = {}
    for stem, english in documents.items():
        document = in_spoken_language(english)
        beside = plots / stem if plots is not None and len(documents) > 1 else plots
        if beside is not None:
            files |= _plots(document, beside)
        for name, one in renderers.items():
            shown = document
            if name == _LINKED and beside is not None:
                shown = _linked(document, there, beside)
            elif name == _LINKED:
                drawn, shown = _first_drawn(document, stem)
                files |= {there / path: data for path, data in drawn.items()}
            made = files_of(one, english if name in FOR_PROGRAMS else shown, stem)
            files |= {there / path: data for path, data in made.items()}
    return files


def compared_report(
    participants: Sequence[ComparedInput], asked: Asked, place: Place, how: Made
) -> dict[str, Document]:
    """Return the one report that compares all, by what its file is called. Raises UsageError as `compare` does."""
    from torchstone.report.pictures import begin_drawing, file_name
    from torchstone.report.several import carrying_compared, comparison_of

    document = comparison_of(participants, asked)
    begin_drawing(document.parts, how.drawing)
    document = carrying_compared(document, participants, asked, place) if how.carried else document
    newest = "_".join(dict.fromkeys(one.runs[-1].head.run_id for one in participants))
    return {file_name(f"comparison_{newest}"): document}


def _plots(document: Document, folder: Path) -> dict[Path, bytes]:
    """Return the pictures. Raises UsageError where the run has data for none: what was asked for is not there."""
    from torchstone.report.pictures import drawn

    if not (found := drawn(document)):
        raise UsageError("--plots: the run has nothing to draw; `torchstone show` says what it has")
    return {folder / name: data for name, data in found.items()}


def _first_drawn(document: Document, stem: str) -> tuple[Mapping[str, bytes], Document]:
    """Return the file of the picture that a Document is about, if it can be drawn, and the Document with that alone."""
    from torchstone.report.pictures import beside, drawn, first_chart, without_charts

    alone = without_charts(document, but=first_chart(document))
    folder = f"{stem}_pictures"
    try:
        files = drawn(alone, (".svg",))
    except MissingError:
        return {}, without_charts(document)
    return {f"{folder}/{name}": data for name, data in files.items()}, beside(alone, quote(folder))


def _linked(document: Document, there: Path, plots: Path) -> Document:
    """Return a Document for a page that links its pictures to the files of --plots."""
    from torchstone.report.pictures import beside

    return beside(document, quote(Path(os.path.relpath(plots, there)).as_posix()))
