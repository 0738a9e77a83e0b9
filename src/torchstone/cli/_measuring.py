"""What commands that measure share: options, progress in lines, Ctrl-C, what is printed at the end, the exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._output import add_json, print_json, run_json, show_document
from torchstone.cli._place import not_pushed, push
from torchstone.core.errors import ExitCode
from torchstone.core.schema.procedure import SEARCH
from torchstone.core.units import plain
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.run import Head, Slot
    from torchstone.core.schema.trial import Trial
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.storage.place import Team
    from torchstone.workflows.run.planned_run import Results


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that measures."""
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--debug", action="store_true", help="print a line for every stage of every trial")
    parser.add_argument("--strict", action="store_true", help="exit 1 unless every trial succeeded")
    add_busy(parser)


def add_busy(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add what to do while the device is busy."""
    parser.add_argument(
        "--when-busy",
        metavar="HOW",
        default=os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"),
        help="if another torchstone measures on the device: wait (default, or $TORCHSTONE_WHEN_BUSY), wait:10m (no "
        "longer), refuse or share",
    )


def busy_of(options: argparse.Namespace) -> WhenBusy:
    """Return what to do while the device is busy; that it waits is printed on stderr, even with --quiet."""
    from torchstone.execution.controller.device_lock import WhenBusy

    return WhenBusy.read(options.when_busy, lambda text: print(f"torchstone: {text}", file=sys.stderr, flush=True))


class ProgressLines:
    """A Watcher (execution/controller/observer.py) that writes lines to stderr. `verbose`: each stage of each trial."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet, self._verbose = quiet, verbose
        self._began_s = system_clock()
        self._may_say_waits_s = self._began_s
        self.run_id: str | None = None

    def begins(self, head: Head) -> None:
        """Print which run it is."""
        self.run_id = head.run_id
        self.say(f"run {head.run_id}")

    def starts(self, slot: Slot, order: int) -> None:
        """Print nothing."""

    def heard(self, event: Event) -> None:
        """Print the stage that a trial enters."""
        from torchstone.core.schema.message import Entered

        if self._verbose and isinstance(event, Entered):
            self.say(f"    {system_clock() - self._began_s:8.3f} s  {event.stage}")

    def finished(self, trial: Trial) -> None:
        """Print nothing."""

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Print what trials wait for, once a minute."""
        if (now_s := system_clock()) >= self._may_say_waits_s:
            self._may_say_waits_s = now_s + 60.0
            self.say(waiting_words(programs))

    def close(self) -> None:
        """Every line stays."""

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(plain(text), file=sys.stderr, flush=True)


def waiting_words(programs: Sequence[tuple[str, float]]) -> str:
    """Return what a trial waits for: other programs that use the CPU, with how many cores."""
    busy = " and ".join(f"{name} ({cores:.1f} cores)" for name, cores in programs)
    return f"waiting up to 10 s before a trial: other programs are busy, {busy}"


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first Ctrl-C or SIGTERM: the running trial is ended, what is measured is recorded.

    At the second, processes are ended and nothing more is looked at. At the third the process is gone at once, and the
    kernel ends what it had started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = 0

    def answer(*_: object) -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            raise KeyboardInterrupt
        if signals == 2:
            raise SystemExit(ExitCode.INTERRUPTED)  # which no `except KeyboardInterrupt` on its way takes for the first
        os._exit(ExitCode.INTERRUPTED)

    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except SystemExit:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_and_report(
    options: argparse.Namespace,
    folder: Path,
    progress: ProgressLines,
    carry_out: Callable[[], Results],
    show: Callable[[Results], None] | None = None,
    document: Callable[[Results], object] | None = None,
    team: Team | None = None,
) -> int:
    """Carry it out, print what came of it (with `show`, or as a table), and return the exit code.

    `document`: what --json prints, where that is more than the run. `team`: the store that a complete run is sent to.
    """
    try:
        with interruptible():
            try:
                results = carry_out()
            finally:
                progress.close()
    except KeyboardInterrupt:
        _say_next("interrupted", folder, progress.run_id, "measures the missing trials")
        if team is not None and progress.run_id is not None:
            not_pushed(folder, progress.run_id)
        return ExitCode.INTERRUPTED
    if options.json:
        print_json(run_json(results.summary) if document is None else document(results))
    else:
        (show or show_measured)(results)
    code = _conclude(options, results)
    if team is not None:
        push(team, results)
    return code


def show_measured(results: Results) -> None:
    """Print a run that was just measured."""
    from torchstone.report.documents.run import measured_document

    show_document(measured_document(results))


def _conclude(options: argparse.Namespace, results: Results) -> int:
    """Print what goes on with a run that is not complete; return the exit code."""
    summary = results.summary
    folder, code = Path(summary.record).parent.parent, exit_code_of(summary, strict=options.strict)
    if results.remaining:
        trials = "1 trial" if results.remaining == 1 else f"{results.remaining} trials"
        _say_next(summary.status, folder, summary.run_id, f"measures the remaining {trials}")
    elif summary.status != "done":
        _say_next(summary.status, folder, summary.run_id, "continues the search")
        if summary.answer is None and summary.command[:1] != (SEARCH,):  # whose answer is in its trials
            return code or ExitCode.NO
    return code


def _say_next(status: str, folder: Path, run_id: str | None, what: str) -> None:
    from torchstone.storage.record_reader import read_head, record_path
    from torchstone.storage.record_writer import next_words

    sys.stdout.flush()
    head = read_head(record_path(folder, run_id)) if run_id is not None else None
    more = f": {next_words(folder, head, what)}" if head is not None else ""
    print(f"torchstone: {status}{more}", file=sys.stderr)


def exit_code_of(summary: RunSummary, *, strict: bool) -> ExitCode:
    """Return the exit code of a run that has ended; where nothing was measured, print that on stderr.

    `strict`: every trial has to have succeeded, else one is enough.
    """
    from torchstone.core.schema.trial import Status

    if summary.status == "interrupted":
        return ExitCode.INTERRUPTED
    ends = Counter(trial.outcome.status for case in summary.cases for trial in case.trials)
    if not ends[Status.OK]:
        how = ", ".join(f"{count} {status}" for status, count in ends.items()) or "no trial was started"
        print(f"torchstone: nothing was measured: {how}", file=sys.stderr)
        return ExitCode.NO
    return ExitCode.NO if strict and ends.keys() != {Status.OK} else ExitCode.DONE
