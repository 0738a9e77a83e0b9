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
import sys
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._program import add_program, program_request
from torchstone.cli._pushing import add_push, push_to
from torchstone.cli._run_options import add_run_options, asked
from torchstone.cli._run_share import add_share, run_share
from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.cli._progress import ProgressBar


MEASURES_PROGRAMS = True  # behind --


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of run."""
    add_run_options(parser)
    parser.add_argument("--live", action="store_true", help="show the tables on the whole terminal while they grow")
    add_measuring(parser)
    add_program(parser)
    add_push(parser)
    add_folder(parser)
    add_share(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, print the table, and say where the files are."""
    if options.plan is not None:
        return run_share(options)
    folder, team = writable(folder_of(options)), push_to(options)
    busy, progress = busy_of(options), _progress(options)
    if options.program is not None:
        from torchstone.workflows.run.program_run import ProgramCampaign

        program = ProgramCampaign(program_request(options), progress, busy)
        return measured(options, folder, progress, lambda: program.carry_out(folder, sys.argv[1:]), team=team)
    from torchstone.workflows.run.planned_run import Campaign

    request = asked(options)
    return measured(
        options, folder, progress, lambda: Campaign(request, progress, busy).carry_out(folder, sys.argv[1:]), team=team
    )


def _progress(options: argparse.Namespace) -> ProgressBar:
    if not options.live:
        from torchstone.cli._progress import ProgressBar

        return ProgressBar(quiet=options.quiet, verbose=options.debug)
    from torchstone.cli._live_screen import LiveScreen

    if options.quiet:
        raise UsageError("--quiet shows no progress and --live all of it: leave one of them out")
    return LiveScreen(verbose=options.debug)
