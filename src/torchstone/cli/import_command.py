"""Import runs from other machines or results of other tools. Importing the same file twice changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import show_document
from torchstone.cli._place import add_folder, folder_of, given_team, writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of import."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a record, a document, a result of another tool (`torchstone list importers`), or a folder of them",
    )
    parser.add_argument(
        "--store", metavar="URL", help="import into a team's store, postgresql://USER@HOST/DATABASE, not into a folder"
    )
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Import, and print for each run whether it was new: also of those before a path that cannot be imported."""
    from torchstone.report.documents.runs import imported_document
    from torchstone.storage.importing import import_path

    place = given_team(options) or writable(folder_of(options))
    taken: list[tuple[str, bool]] = []
    try:
        for path in options.paths:
            taken += import_path(Path(path), place)
    finally:
        if taken:
            show_document(imported_document(taken))
    return 0
