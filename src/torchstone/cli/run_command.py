"""Measure a program as it is typed, or a model: a recipe, a YAML, JSON or TOML file, or options alone.

torchstone run -- python train.py --batch_size 16
torchstone run --axis batch_size=16,32 -- python train.py --batch_size {batch_size}
torchstone run distilbert
torchstone run distilbert --axis batch_size=1,8 --axis precision=fp32,bf16 --trials 5
torchstone run --task infer --model py:mine.py:load --axis batch_size=1,2
torchstone run my-run.yaml --device cuda:1 --json
torchstone run my-run.yaml --push                         (and to the store of the team)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._measuring import add_measuring, busy_of, interruptible, run_and_report
from torchstone.cli._place import add_folder, add_push, folder_of, push_to, writable
from torchstone.cli._run_options import add_program, add_run_options, program_request, request_from
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from torchstone.cli._progress import ProgressBar


def _run_share(options: argparse.Namespace) -> int:
    """Measure the share; exit 0 if it is complete, 130 where this was interrupted, else 1."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.workflows.submit.planning import ShareRun

    if options.share is None:
        raise UsageError("--plan needs --share N: which of its shares")
    if options.push:
        raise UsageError("--plan measures a part of a run: push the merged one, `torchstone push RUN`")
    if options.recipe is not None or options.model is not None or options.axes:
        raise UsageError("--plan says what to measure: leave out the recipe and its options")
    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    attempt = options.attempt or os.urandom(4).hex()
    share = ShareRun(Path(options.plan), options.share, attempt, progress, busy_of(options))
    with interruptible():
        try:
            done = share.carry_out(sys.argv[1:])
        finally:
            progress.close()
    print(f"share {options.share}: trials measured: {done.measured}, missing: {done.left}", flush=True)
    if done.run is not None and done.run.end is not None and done.run.end.status == "interrupted":
        print("torchstone: interrupted by a signal: its time limit, a preemption, or scancel", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return ExitCode.NO if done.left else ExitCode.DONE


MEASURES_PROGRAMS = True  # behind --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of run."""
    add_run_options(parser)
    parser.add_argument("--live", action="store_true", help="show the tables on the whole terminal while they grow")
    add_measuring(parser)
    add_program(parser)
    add_push(parser)
    add_folder(parser)
    # Add --plan, --share and --attempt.
    jobs = parser.add_argument_group("in a job of a cluster")
    jobs.add_argument("--plan", metavar="FILE", help="measure a share of the plan.json of `torchstone submit`")
    jobs.add_argument("--share", type=int, metavar="N", help="with --plan: which share, from 0")
    jobs.add_argument(
        "--attempt",
        metavar="WORD",
        default=None,
        help="with --plan: name of this attempt's record; earlier ones of the share are continued (default: random)",
    )


def run(options: argparse.Namespace) -> int:
    """Measure, print the table, and say where the files are."""
    if options.plan is not None:
        return _run_share(options)
    folder, team = writable(folder_of(options)), push_to(options)
    busy, progress = busy_of(options), _progress(options)
    if options.program is not None:
        from torchstone.workflows.run.planned_run import ProgramCampaign

        program = ProgramCampaign(program_request(options), progress, busy)
        return run_and_report(options, folder, progress, lambda: program.carry_out(folder, sys.argv[1:]), team=team)
    from torchstone.workflows.run.planned_run import Campaign

    request = request_from(options)
    return run_and_report(
        options, folder, progress, lambda: Campaign(request, progress, busy).carry_out(folder, sys.argv[1:]), team=team
    )


def _progress(options: argparse.Namespace) -> ProgressBar:
    if not options.live:
        from torchstone.cli._progress import ProgressBar

        return ProgressBar(quiet=options.quiet, verbose=options.debug)
    from torchstone.cli._progress import LiveScreen

    if options.quiet:
        raise UsageError("--quiet shows no progress and --live all of it: leave one of them out")
    return LiveScreen(verbose=options.debug)
