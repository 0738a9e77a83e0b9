"""`--push`: a run that was measured is sent to the team's store when it is complete."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._place import VARIABLE, team_of_environment
from torchstone.core.errors import TorchstoneError, UsageError

if TYPE_CHECKING:
    from torchstone.storage.team.address import Team
    from torchstone.workflows.run.results import Results


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
    from torchstone.storage.team.faults import library

    if (team := team_of_environment()) is None:
        raise UsageError(f"--push needs the team's store: set {VARIABLE}=postgresql://USER@HOST/DATABASE")
    library()
    return team


def push(team: Team, results: Results) -> None:
    """Send the run and say so on stderr. A failure is told there, too: the run stays on disk, and nothing else."""
    from torchstone.storage.importing import push_records
    from torchstone.storage.record_writer import typed_run
    from torchstone.storage.team.faults import AwayError

    summary = results.summary
    record = Path(summary.record)
    later = f"`torchstone push {typed_run(record.parent.parent, summary.run_id)}`"
    said = f"pushed to {team}"
    if summary.status != "done" or results.remaining:
        said = f"not pushed, as trials are missing: {later} sends what there is"
    else:
        try:
            _, faults = push_records([record], team)
            said = f"not pushed: {faults[0]}" if faults else said
        except AwayError as fault:  # which says what to type later
            said = f"not pushed: {fault}"
        except TorchstoneError as fault:
            said = f"not pushed: {fault}; the run is kept: {later}"
    print(f"torchstone: {said}", file=sys.stderr)
