"""Write the report of stored runs as files, one per run and format, or one that compares them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._output import document_of
from torchstone.cli._parsing import split_words
from torchstone.cli._place import add_place, folder_of, place_of
from torchstone.cli._reports import Folders, ReportOptions, add_plots, compared_report, write_reports
from torchstone.core.errors import UsageError
from torchstone.report.rendering import formats

if TYPE_CHECKING:
    from torchstone.report.document import Document
    from torchstone.storage.place import Place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of report."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="run",
        default=["latest"],
        help="paths, ids, unique prefixes, names, or latest (default)",
    )
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
        "--combined",
        action="store_true",
        help="write one report of all runs, such as training and inference of a model, not one of each",
    )
    add_plots(parser, "there (of several runs: DIR/RUN)")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the reports (default: the folder reports of --output-dir)"
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="DIR",
        help="write the page of the benchmarks' history instead: a work tree of its branch (torchstone ci history)",
    )
    parser.add_argument(
        "--no-record",
        action="store_true",
        help="HTML without the record: smaller, and `torchstone verify` cannot check it",
    )
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Make every report, then write the files and print their names: nothing is written where one cannot be made."""
    folder, place = folder_of(options), place_of(options)
    named = split_words(options.format) or ([] if options.plots is not None else ["md"])
    there = Folders(options.output or folder / "reports", options.plots, (options.output, options.plots, folder))
    make = lambda how: _documents(options, place, how)
    print("\n".join(map(str, write_reports(make, named, there, records=not options.no_record))))
    return 0


def _documents(options: argparse.Namespace, place: Place, how: ReportOptions) -> dict[str, Document]:
    """Return the reports that were asked for, by what their files are called."""
    if options.history is not None:
        return {"history": _history(options.history)}
    if options.compare and options.combined:
        raise UsageError("--compare and --combined are two kinds of one report: give one of them")
    if options.combined:
        return _combined(options.runs, place, how)
    if options.compare:
        from torchstone.analysis.compare.compare import ComparisonRequest
        from torchstone.analysis.compare.inputs import gather

        return compared_report(gather(options.runs, place), ComparisonRequest(), place, how)
    # The reports by what their files are called: the id of the run, or the name of a result's file.
    from torchstone.analysis.summary import summarize
    from torchstone.report.carried import carrying, files_of_run, packing
    from torchstone.report.results import is_result, read_result
    from torchstone.storage.query import find

    found = {Path(word).stem: read_result(Path(word))[1] for word in options.runs if is_result(word)}
    for summary in [summarize(find(place, word)) for word in options.runs if not is_result(word)]:
        packed = packing(files_of_run(summary)) if how.carried else None
        document = document_of(summary, every=True, pictures=True, drawing=how.drawing)
        found[summary.run_id] = document if packed is None else carrying(document, packed)
    return found


def _history(folder: Path) -> Document:
    """Return the history of benchmarks that a folder holds, as `torchstone ci history` fills it."""
    from torchstone.analysis.ci import traces
    from torchstone.report.documents.ci import ci_history_document
    from torchstone.storage.ci_folder import read_history

    entries = read_history(folder)
    return ci_history_document(traces(entries), len(entries))


def _combined(words: Sequence[str], place: Place, how: ReportOptions) -> dict[str, Document]:
    """Return the one report of all runs, each with its own figures. Raises UsageError for fewer than two, or twins."""
    from torchstone.analysis.summary import summarize
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
