"""Write the report of stored runs as files, one per run and format, or one that compares them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchstone.cli._folder import folder_of
from torchstone.cli._parsing import words_of
from torchstone.cli._place import add_place, place_of
from torchstone.cli._plots import add_plots, check_folder, write_file
from torchstone.core.errors import UsageError
from torchstone.report.rendering import FOR_PROGRAMS, DrawingRenderer, Renderer, files_of, formats, renderer

if TYPE_CHECKING:
    from torchstone.report.document import Document
    from torchstone.report.pictures import Specifications
    from torchstone.storage.place import Place

_LINKED = "md"  # pictures are files beside it: without them it has no place for any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of report."""
    parser.add_argument(
        "runs", nargs="*", metavar="run", default=["latest"],
        help="paths, ids, unique prefixes, names, or latest (default)",
    )  # fmt: skip
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMATS",
        help=f"any of {', '.join(formats())}, comma-separated (default: md; with --plots alone: none)",
    )
    parser.add_argument(
        "--compare", action="store_true", help="write one report that compares the runs with the first, not one of each"
    )
    parser.add_argument(
        "--combined", action="store_true",
        help="write one report of all runs, such as training and inference of a model, not one of each",
    )  # fmt: skip
    add_plots(parser, "there (of several runs: DIR/RUN)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the reports (default: the folder reports of --output-dir)"
    )
    parser.add_argument(
        "--history", type=Path, metavar="DIR",
        help="write the page of the benchmarks' history instead: a work tree of its branch (torchstone ci history)",
    )  # fmt: skip
    parser.add_argument(
        "--no-record",
        action="store_true",
        help="HTML without the record: smaller, and `torchstone verify` cannot check it",
    )
    add_place(parser)


class _Made(NamedTuple):
    """How reports are made. `carried`: with their records; `drawing`: what the formats draw of charts."""

    carried: bool
    drawing: Sequence[Specifications]


def run(options: argparse.Namespace) -> int:
    """Make every report, then write the files and print their names: nothing is written where one cannot be made."""
    from torchstone.core.charts.drawing import drawing_elsewhere
    from torchstone.report.carried import CARRYING

    folder = folder_of(options)
    named = words_of(options.format) or ([] if options.plots is not None else ["md"])
    renderers = {name: renderer(name) for name in named}
    carried = not options.no_record and any(one.suffix in CARRYING for one in renderers.values())
    there: Path = options.output or folder / "reports"
    for written_to in (there, options.plots or there):
        check_folder(written_to)
    every = [*renderers.values(), *([renderer("png")] if options.plots is not None else [])]
    how = _Made(carried, [one.specifications for one in every if isinstance(one, DrawingRenderer)])
    with drawing_elsewhere() if how.drawing else nullcontext():
        documents = _documents(options, place_of(options), how)
        files = _files(documents, renderers, there, options.plots)
    by_user: tuple[Path | None, ...] = (options.output, options.plots, folder)
    trusted = [one for one in by_user if one is not None]  # links too
    for path, data in files.items():
        print(write_file(path, data, next(one for one in trusted if path.is_relative_to(one))))
    return 0


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
            shown = _linked(document, there, beside) if name == _LINKED else document
            made = files_of(one, english if name in FOR_PROGRAMS else shown, stem)
            files |= {there / path: data for path, data in made.items()}
    return files


def _documents(options: argparse.Namespace, place: Place, how: _Made) -> dict[str, Document]:
    """Return the reports that were asked for, by what their files are called."""
    if options.history is not None:
        return {"history": _history(options.history)}
    if options.compare and options.combined:
        raise UsageError("--compare and --combined are two kinds of one report: give one of them")
    if options.combined:
        return _combined(options.runs, place, how)
    of = _compared if options.compare else _of_each
    return of(options.runs, place, how)


def _history(folder: Path) -> Document:
    """Return the history of benchmarks that a folder holds, as `torchstone ci history` fills it."""
    from torchstone.analysis.ci.commit_history import traces
    from torchstone.report.documents.ci_history import ci_history_document
    from torchstone.storage.ci_folder import read_history

    entries = read_history(folder)
    return ci_history_document(traces(entries), len(entries))


def _of_each(words: Sequence[str], place: Place, how: _Made) -> dict[str, Document]:
    """Return the reports by what their files are called: the id of the run, or the name of a result's file."""
    from torchstone.analysis.summary import summarize
    from torchstone.cli._stored import document_of
    from torchstone.report.carried import carrying, files_of_run, packing
    from torchstone.report.results import is_result, read_result
    from torchstone.storage.query import find

    found = {Path(word).stem: read_result(Path(word))[1] for word in words if is_result(word)}
    for summary in [summarize(find(place, word)) for word in words if not is_result(word)]:
        packed = packing(files_of_run(summary)) if how.carried else None
        document = document_of(summary, every=True, pictures=True, drawing=how.drawing)
        found[summary.run_id] = document if packed is None else carrying(document, packed)
    return found


def _combined(words: Sequence[str], place: Place, how: _Made) -> dict[str, Document]:
    """Return the one report of all runs, each with its own figures. Raises UsageError for fewer than two, or twins."""
    from torchstone.analysis.summary import summarize
    from torchstone.cli._stored import document_of
    from torchstone.report.documents.combined import combined_document
    from torchstone.report.pictures import file_name
    from torchstone.report.several import carrying_combined
    from torchstone.storage.query import find

    summaries = [summarize(find(place, word)) for word in words]
    if len({one.run_id for one in summaries}) < max(2, len(summaries)):
        raise UsageError("--combined needs two or more different runs: torchstone report RUN RUN --combined")
    each = [document_of(one, every=True, pictures=True, drawing=how.drawing) for one in summaries]
    document = combined_document(summaries, each)
    document = carrying_combined(document, summaries) if how.carried else document
    return {file_name(f"combined_{'_'.join(one.run_id for one in summaries)}"): document}


def _compared(words: Sequence[str], place: Place, how: _Made) -> dict[str, Document]:
    """Return the one report of all runs, by what its file is called. Raises UsageError as `compare` does."""
    from torchstone.analysis.compare.inputs import gather
    from torchstone.report.pictures import begin_drawing, file_name
    from torchstone.report.several import carrying_compared, comparison_of

    participants = gather(words, place)
    document = comparison_of(participants)
    begin_drawing(document.parts, how.drawing)
    document = carrying_compared(document, participants, place) if how.carried else document
    newest = "_".join(one.runs[-1].head.run_id for one in participants)
    return {file_name(f"comparison_{newest}"): document}


def _plots(document: Document, folder: Path) -> dict[Path, bytes]:
    """Return the pictures. Raises UsageError where the run has data for none: what was asked for is not there."""
    from torchstone.report.pictures import drawn

    if not (found := drawn(document)):
        raise UsageError("--plots: the run has nothing to draw; `torchstone show` says what it has")
    return {folder / name: data for name, data in found.items()}


def _linked(document: Document, there: Path, plots: Path | None) -> Document:
    """Return a Document for a page that links its pictures: to the files of --plots, or without any."""
    from urllib.parse import quote

    from torchstone.report.pictures import beside, without_charts

    if plots is None:
        return without_charts(document)
    return beside(document, quote(Path(os.path.relpath(plots, there)).as_posix()))
