"""Write the report of stored runs as files, one per run and format."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._parsing import words_of
from torchstone.core.errors import UsageError
from torchstone.report.rendering import files_of, formats, renderer

if TYPE_CHECKING:
    from torchstone.report.document import Document
    from torchstone.report.rendering import Renderer

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
        "--plots", type=Path, metavar="DIR", help="write each picture as SVG and PNG into this folder (per run, of several)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the reports (default: the folder reports of --output-dir)"
    )
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files and print their names."""
    from torchstone.analysis.summary import summarize
    from torchstone.cli._stored import document_of
    from torchstone.storage.query import find

    folder = folder_of(options)
    named = words_of(options.format) or ([] if options.plots is not None else ["md"])
    renderers = {name: renderer(name) for name in named}
    summaries = [summarize(find(folder, word)) for word in options.runs]
    there: Path = options.output or folder / "reports"
    written: list[Path] = []
    for summary in summaries:
        document = document_of(summary, every=True, pictures=True)
        plots = None
        if options.plots is not None:
            plots = options.plots / summary.run_id if len(summaries) > 1 else options.plots
            written += _plots(document, plots)
        for name, one in renderers.items():
            shown = _linked(document, there, plots) if name == _LINKED else document
            written += _files(one, shown, there, summary.run_id)
    print("\n".join(map(str, written)))
    return 0


def _files(one: Renderer, document: Document, there: Path, stem: str) -> list[Path]:
    return [_write(there / name, data) for name, data in files_of(one, document, stem).items()]


def _plots(document: Document, folder: Path) -> list[Path]:
    """Write the pictures. Raises UsageError where the run has data for none: what was asked for is not there."""
    from torchstone.report.pictures import drawn

    found = drawn(document)
    if not found:
        raise UsageError("--plots: the run has nothing to draw; `torchstone show` says what it has")
    return [_write(folder / name, data) for name, data in found.items()]


def _linked(document: Document, there: Path, plots: Path | None) -> Document:
    """Return a Document for a page that links its pictures: to the files of --plots, or without any."""
    from urllib.parse import quote

    from torchstone.report.pictures import beside, without_charts

    if plots is None:
        return without_charts(document)
    return beside(document, quote(Path(os.path.relpath(plots, there)).as_posix()))


def _write(path: Path, data: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as fault:
        raise UsageError(f"cannot write into {path.parent}: {fault.strerror}") from None
    return path
