"""Where runs are kept and read: the output folder, or a team's store; `--push` sends what was measured there."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import TorchstoneError, UsageError

if TYPE_CHECKING:
    from torchstone.storage.place import Place, Team
    from torchstone.workflows.run.planned_run import Results


VARIABLE = "TORCHSTONE_STORE"


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add --output-dir."""
    parser.add_argument(
        "--output-dir", metavar="DIR", help="folder of records and reports (default: $TORCHSTONE_OUTPUT, or outputs)"
    )


def folder_of(options: argparse.Namespace) -> Path:
    """Return the folder. Raises UsageError if something else lies there."""
    folder = Path(options.output_dir or os.environ.get("TORCHSTONE_OUTPUT", "outputs"))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output-dir {folder} is a file; name a folder")
    return folder


def writable(folder: Path, flag: str = "--output-dir") -> Path:
    """Return the folder if files can be made in it (or in the nearest parent there is), without making it yet."""
    there = existing(folder)
    if not there.is_dir():
        raise UsageError(f"{flag} {folder}: {there} is a file; name a folder")
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=there):
            return folder
    except OSError as error:
        raise UsageError(f"{flag} {folder} cannot be written: {error.strerror}; name another folder") from None


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest parent of it that there is."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return there


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add --output-dir and --store."""
    add_folder(parser)
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"read a team's store, postgresql://USER@HOST/DATABASE (default: ${VARIABLE}, unless --output-dir is "
        "given); the password comes from ~/.pgpass or PGPASSWORD",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --store alone."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"the team's store, postgresql://USER@HOST/DATABASE (default: ${VARIABLE}); the password comes from "
        "~/.pgpass or PGPASSWORD",
    )


def place_of(options: argparse.Namespace) -> Place:
    """Return where runs are read: --store, else --output-dir where it was typed, else $TORCHSTONE_STORE."""
    team = _team(options.store, os.environ.get(VARIABLE, "") if options.output_dir is None else "")
    return folder_of(options) if team is None else team


def team_of(options: argparse.Namespace) -> Team:
    """Return the team's store. Raises UsageError where none is named."""
    team = _team(options.store, os.environ.get(VARIABLE, ""))
    if team is None:
        raise UsageError(f"no store is named: type --store postgresql://USER@HOST/DATABASE, or set {VARIABLE}")
    return team


def given_team(options: argparse.Namespace) -> Team | None:
    """Return the store that --store names; None without the flag."""
    return _team(options.store, "")


def _team(typed: str | None, of_environment: str) -> Team | None:
    if typed is None and not of_environment:
        return None
    from torchstone.storage.place import team_at

    return team_at(typed, typed=True) if typed is not None else team_at(of_environment, typed=False)


def add_push(parser: argparse.ArgumentParser) -> None:
    """Add --push."""
    parser.add_argument(
        "--push", action="store_true", help=f"send the run to the team's store (${VARIABLE}) when it is complete"
    )


def push_to(options: argparse.Namespace) -> Team | None:
    """Return the store that --push means; None without the flag.

    Raises UsageError where none is named, MissingError without psycopg: before anything is measured.
    """
    if not options.push:
        return None
    from torchstone.storage.team.session import import_psycopg

    if (team := _team(None, os.environ.get(VARIABLE, ""))) is None:
        raise UsageError(f"--push needs the team's store: set {VARIABLE}=postgresql://USER@HOST/DATABASE")
    import_psycopg()
    return team


def push(team: Team, results: Results) -> None:
    """Send the run and print that, or why it failed, on stderr: the run stays on disk in any case."""
    from torchstone.storage.importing import push_records

    summary = results.summary
    record = Path(summary.record)
    folder = record.parent.parent
    if summary.status != "done" or results.remaining:
        not_pushed(folder, summary.run_id)
        return
    try:
        _, faults = push_records([record], team)
        line = f"not pushed: {faults[0]}" if faults else f"pushed to {team}"
    except TorchstoneError as fault:
        line = f"not pushed: {fault}; the run is kept: {_later(folder, summary.run_id)} sends it later"
    print(f"torchstone: {line}", file=sys.stderr)


def not_pushed(folder: Path, run_id: str) -> None:
    """Print on stderr that a run is not complete and was not sent."""
    print(
        f"torchstone: not pushed, as trials are missing: {_later(folder, run_id)} sends what there is", file=sys.stderr
    )


def _later(folder: Path, run_id: str) -> str:
    from torchstone.storage.record_writer import typed_run

    return f"`torchstone push {typed_run(folder, run_id)}`"
