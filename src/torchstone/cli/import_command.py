"""Import runs from other machines or results of other tools. Importing the same file twice changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._folder import add_folder, folder_of, writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of import."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH",
        help="a record, a document, a result of another tool (`torchstone list importers`), or a folder of them",
    )  # fmt: skip
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Import, and say for each run whether it was new."""
    from torchstone.storage.importing import import_path

    folder = writable(folder_of(options))
    for path in options.paths:
        for run_id, new in import_path(Path(path), folder):
            print(f"{run_id}  {'imported' if new else 'imported before'}")
    return 0
