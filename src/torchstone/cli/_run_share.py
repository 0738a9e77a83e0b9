"""`run --plan FILE --share N`: what a job of a cluster types. It records and says how many trials are left."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from torchstone.cli._interrupts import EXIT_CODE, answered
from torchstone.cli._measuring import busy_of
from torchstone.core.errors import ExitCode, UsageError


def add_share(parser: argparse.ArgumentParser) -> None:
    """Add --plan, --share and --attempt."""
    jobs = parser.add_argument_group("in a job of a cluster")
    jobs.add_argument("--plan", metavar="FILE", help="measure a share of the plan.json of `torchstone submit`")
    jobs.add_argument("--share", type=int, metavar="N", help="with --plan: which share, from 0")
    jobs.add_argument(
        "--attempt", metavar="WORD", default=None,
        help="with --plan: name of this attempt's record; earlier ones of the share are continued (default: random)",
    )  # fmt: skip


def run_share(options: argparse.Namespace) -> int:
    """Measure the share; exit 0 if it is complete, 130 where this was interrupted, else 1."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.workflows.submit.share import ShareRun

    if options.share is None:
        raise UsageError("--plan needs --share N: which of its shares")
    if options.push:
        raise UsageError("--plan measures a part of a run: push the merged one, `torchstone push RUN`")
    if options.recipe is not None or options.model is not None or options.axes:
        raise UsageError("--plan says what to measure: leave out the recipe and its options")
    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    attempt = options.attempt or os.urandom(4).hex()
    share = ShareRun(Path(options.plan), options.share, attempt, progress, busy_of(options))
    try:
        with answered():
            try:
                done = share.carry_out(sys.argv[1:])
            finally:
                progress.close()
    except (KeyboardInterrupt, SystemExit):
        print("torchstone: interrupted", file=sys.stderr)
        return EXIT_CODE
    print(f"share {options.share}: trials measured: {done.taken}, missing: {done.left}", flush=True)
    if done.run is not None and done.run.end is not None and done.run.end.status == "interrupted":
        print("torchstone: interrupted by a signal: its time limit, a preemption, or scancel", file=sys.stderr)
        return EXIT_CODE
    return ExitCode.NO if done.left else ExitCode.DONE
