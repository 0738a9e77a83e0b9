"""List the stored runs, newest first."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._place import add_place, place_of
from torchstone.core.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of runs."""
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="maximum number of runs to list (default 20; 0: all)"
    )
    parser.add_argument("--name", help="only runs whose name contains this")
    parser.add_argument("--device", help="only runs on this kind of device")
    parser.add_argument("--rebuild", action="store_true", help="first rebuild the index from the records")
    add_json(parser)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from torchstone.storage.index import rebuild, sync
    from torchstone.storage.query import runs

    if options.limit < 0:
        raise UsageError(f"--limit {options.limit} is too small: 0 (all) or more")
    place = place_of(options)
    if isinstance(place, Path):
        problems = rebuild(place) if options.rebuild else sync(place)
    elif options.rebuild:
        raise UsageError("--rebuild is for the index of a folder; for a team's store type torchstone store upgrade")
    else:
        problems = ()
    rows = runs(place, options.limit or None, options.name, options.device)
    if options.json:
        print_json({"runs": rows, "problems": problems})
        return 0
    from torchstone.report.documents.runs import runs_document

    show_document(runs_document(rows, problems, place))
    return 0
