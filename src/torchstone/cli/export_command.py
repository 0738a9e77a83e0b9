"""Write a stored run as csv, json, jsonl or parquet, or as charts (svg)."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from torchstone.cli._output import show_document, terminal_width
from torchstone.cli._place import add_place, folder_of, place_of, writable
from torchstone.core.errors import UsageError, unknown
from torchstone.core.own_files import replacing
from torchstone.plugins import registry

_ROWS = {
    "cases": "a row per case with every estimate",
    "trials": "a row per trial",
    "samples": "a row per raw value",
    "energy": "a row per group of steps, as short as the energy counter tells apart",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of export."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--format", default=None, help=f"one of {', '.join(registry.names('exporters'))} (default: by --to, or csv)"
    )
    parser.add_argument(
        "--rows", default="cases", help="; ".join(f"{name}: {meaning}" for name, meaning in _ROWS.items())
    )
    parser.add_argument("--to", metavar="FILE", help="file to write (default: beside the records, named after the run)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from torchstone.analysis import rows
    from torchstone.analysis.rows import energy_rows
    from torchstone.storage.query import locate, read_run

    folder = folder_of(options)
    word = options.format or (Path(options.to).suffix.lstrip(".") if options.to else "") or "csv"
    exporter = registry.load("exporters", word)
    if options.rows not in _ROWS:
        raise unknown("kind of rows", options.rows, _ROWS)
    stored = read_run(locate(place_of(options), options.run))
    there = folder / exporter.folder
    path = Path(options.to) if options.to else there / f"{stored.head.run_id}_{options.rows}{exporter.suffix}"
    if options.to and path.exists() and not options.force:
        raise UsageError(f"{path} exists already; --force overwrites it")
    if not options.to:
        writable(path.parent)
    elif not path.parent.is_dir():
        raise UsageError(f"--to {path}: there is no folder {path.parent}")
    make = {"cases": rows.case_rows, "trials": rows.trial_rows, "samples": rows.sample_rows, "energy": energy_rows}[
        options.rows
    ]
    table = make(stored)
    if options.rows == "energy" and not table:
        raise UsageError(
            "--rows energy: no energy or power was read in this run, or its windows are shorter than two readings "
            "(--telemetry 50ms, --budget 10s)"
        )
    through = options.to and options.force  # even into a pipe or through a link, as it was asked for
    try:
        with nullcontext(path) if through else replacing(path, None if options.to else folder) as there:
            exporter.write(stored, table, there)
    except OSError as fault:
        raise UsageError(f"cannot write {path}: {fault.strerror}") from None
    from torchstone.report.documents.runs import exported_document

    show_document(exported_document(path), max(terminal_width(), len(str(path))))  # whole: programs read it
    return 0
