"""What `run` and `resume` share: options, the live progress, Ctrl-C, and what is printed at the end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torchstone.cli._ending import code_of
from torchstone.cli._interrupts import EXIT_CODE, answered
from torchstone.cli._parsing import add_json
from torchstone.cli._pushing import not_pushed, push
from torchstone.core.errors import ExitCode
from torchstone.core.schema.procedure import SEARCH

if TYPE_CHECKING:
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.storage.place import Team
    from torchstone.workflows.run.planned_run import Results


class Progress(Protocol):
    """What shows how far it is. `run_id` is None until a run has begun."""

    @property
    def run_id(self) -> str | None:
        """The run that is measured."""

    def close(self) -> None:
        """Wipe what is not meant to stay."""


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that measures."""
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--debug", action="store_true", help="print a line for every stage of every trial")
    parser.add_argument("--strict", action="store_true", help="exit 1 unless every trial succeeded")
    add_busy(parser)


def add_busy(parser: argparse.ArgumentParser) -> None:
    """Add what to do while the device is busy."""
    parser.add_argument(
        "--when-busy",
        metavar="HOW",
        default=os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"),
        help="if another torchstone measures on the device: wait (default, or $TORCHSTONE_WHEN_BUSY), wait:10m (no "
        "longer), refuse or share",
    )


def busy_of(options: argparse.Namespace) -> WhenBusy:
    """Return what to do while the device is busy; who waits is told on stderr, even with --quiet."""
    from torchstone.execution.controller.device_lock import WhenBusy

    return WhenBusy.read(options.when_busy, lambda text: print(f"torchstone: {text}", file=sys.stderr, flush=True))


def measured(
    options: argparse.Namespace,
    folder: Path,
    progress: Progress,
    carry_out: Callable[[], Results],
    show: Callable[[Results], None] | None = None,
    document: Callable[[Results], object] | None = None,
    team: Team | None = None,
) -> int:
    """Carry it out, print what came of it (with `show`, or as a table), and return the exit code.

    `document`: what --json prints, where that is more than the run. `team`: the store that a complete run is sent to.
    """
    try:
        with answered():
            try:
                results = carry_out()
            finally:
                progress.close()
    except (KeyboardInterrupt, SystemExit):
        _say("interrupted", folder, progress.run_id, "measures the missing trials")
        if team is not None and progress.run_id is not None:
            not_pushed(folder, progress.run_id)
        return EXIT_CODE
    code = _told(options, results, show or _print, document or _whole)
    if team is not None:
        push(team, results)
    return code


def _told(
    options: argparse.Namespace,
    results: Results,
    show: Callable[[Results], None],
    document: Callable[[Results], object],
) -> int:
    summary = results.summary
    if options.json:
        from torchstone.cli._json import print_json

        print_json(document(results))
    else:
        show(results)
    folder, code = Path(summary.record).parent.parent, code_of(summary, strict=options.strict)
    if results.remaining:
        trials = "1 trial" if results.remaining == 1 else f"{results.remaining} trials"
        _say(summary.status, folder, summary.run_id, f"measures the remaining {trials}")
    elif summary.status != "done":
        _say(summary.status, folder, summary.run_id, "continues the search")
        if summary.answer is None and summary.command[:1] != (SEARCH,):  # whose answer is in its trials
            return code or ExitCode.NO
    return code


def _whole(results: Results) -> object:
    from torchstone.cli._run_json import whole

    return whole(results.summary)


def _say(status: str, folder: Path, run_id: str | None, what: str) -> None:
    from torchstone.storage.record_reader import read_head, record_path
    from torchstone.storage.record_writer import next_words

    sys.stdout.flush()
    head = read_head(record_path(folder, run_id)) if run_id is not None else None
    more = f": {next_words(folder, head, what)}" if head is not None else ""
    print(f"torchstone: {status}{more}", file=sys.stderr)


def _print(results: Results) -> None:
    from torchstone.cli._render import show_document
    from torchstone.report.documents.run import measured_document

    show_document(measured_document(results))
