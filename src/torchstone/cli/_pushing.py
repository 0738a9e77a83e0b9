"""`--push`: a run that was measured is sent to the team's store when it is complete."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._place import VARIABLE, team_of_environment
from torchstone.core.errors import TorchstoneError, UsageError

if TYPE_CHECKING:
    from torchstone.storage.place import Team
    from torchstone.workflows.run.planned_run import Results


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
    from torchstone.storage.team.session import library

    if (team := team_of_environment()) is None:
        raise UsageError(f"--push needs the team's store: set {VARIABLE}=postgresql://USER@HOST/DATABASE")
    library()
    return team


def push(team: Team, results: Results) -> None:
    """Send the run and say so on stderr. A failure is told there, too: the run stays on disk, and nothing else."""
    from torchstone.storage.importing import push_records

    summary = results.summary
    record = Path(summary.record)
    folder = record.parent.parent
    if summary.status != "done" or results.remaining:
        not_pushed(folder, summary.run_id)
        return
    try:
        _, faults = push_records([record], team)
        said = f"not pushed: {faults[0]}" if faults else f"pushed to {team}"
    except TorchstoneError as fault:
        said = f"not pushed: {fault}; the run is kept: {_later(folder, summary.run_id)} sends it later"
    print(f"torchstone: {said}", file=sys.stderr)


def not_pushed(folder: Path, run_id: str) -> None:
    """Say on stderr that a run is not complete and was not sent."""
    print(
        f"torchstone: not pushed, as trials are missing: {_later(folder, run_id)} sends what there is", file=sys.stderr
    )


def _later(folder: Path, run_id: str) -> str:
    from torchstone.storage.record_writer import typed_run

    return f"`torchstone push {typed_run(folder, run_id)}`"
