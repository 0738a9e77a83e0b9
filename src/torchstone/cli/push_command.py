"""Send stored runs to a team's store. Pushing the same run twice changes nothing.

torchstone push --all --store postgresql://ana@db.example/benchmarks
torchstone push latest nightly             (the store: $TORCHSTONE_STORE)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._place import add_folder, add_store, folder_of, team_of
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of push."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a path, an id, a unique prefix, a name, or latest")
    parser.add_argument("--all", action="store_true", help="every run of the output folder")
    add_store(parser)
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Push; return 2 if a run was refused, after all others were pushed."""
    from torchstone.storage.importing import push_records
    from torchstone.storage.team.session import AwayError

    if bool(options.runs) == options.all:
        raise UsageError("name the runs to push, or type torchstone push --all")
    team, folder = team_of(options), folder_of(options)
    try:
        taken, faults = push_records(list(_paths(options.runs, folder)), team)
    except AwayError as fault:
        raise AwayError(f"{fault}; nothing is lost: the records stay in {folder}, push them again later") from None
    if options.json:
        runs = [{"run_id": run_id, "pushed": new} for run_id, new in taken]
        print_json({"store": team.shown, "runs": runs, "refused": faults})
    else:
        from torchstone.report.documents.runs import pushed_document

        show_document(pushed_document(taken, faults, team))
    return ExitCode.WRONG if faults else ExitCode.DONE


def _paths(words: list[str], folder: Path) -> Iterator[Path]:
    from torchstone.storage.query import locate

    if words:
        yield from (locate(folder, word) for word in words)
        return
    found = sorted((folder / "records").glob("*.jsonl"))
    if not found:
        raise UsageError(f"no records in {folder / 'records'}; name the folder with --output-dir")
    yield from found
