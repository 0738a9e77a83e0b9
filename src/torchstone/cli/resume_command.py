"""Continue a run that was killed, interrupted or out of time: measure only the missing trials.

torchstone resume                         (the newest run)
torchstone resume 20261121-101500-3fa9c2
torchstone resume my-sweep --time-limit 2h
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._run_options import positive_s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of resume."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--force", action="store_true", help="continue although machine, recipe, code or data have changed"
    )
    parser.add_argument(
        "--time-limit", metavar="T", help="start no trial after this time (default: as given to the run)"
    )
    add_measuring(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Take what is missing, print the table or the answer, and say where the files are."""
    from torchstone.storage.query import locate, read_run

    folder = folder_of(options)
    limit_s = positive_s("--time-limit", options.time_limit)
    path = locate(folder, options.run)
    of_a_tune = read_run(path).head.quest is not None
    return (_resume_tune if of_a_tune else _resume_run)(options, folder, path, limit_s)


def _resume_run(options: argparse.Namespace, folder: Path, path: Path, limit_s: float | None) -> int:
    from torchstone.cli._progress import ProgressBar
    from torchstone.workflows.run.resuming import Resumption

    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    resumption = Resumption(path, folder, progress, busy_of(options), force=options.force)
    return measured(options, folder, progress, lambda: resumption.carry_out(limit_s))


def _resume_tune(options: argparse.Namespace, folder: Path, path: Path, limit_s: float | None) -> int:
    from torchstone.cli._tune_progress import TuneProgress
    from torchstone.workflows.run.resuming import Resumption
    from torchstone.workflows.tune.tune import going_on

    progress = TuneProgress(quiet=options.quiet, verbose=options.debug)
    how = going_on(progress)
    resumption = Resumption(path, folder, progress, busy_of(options), force=options.force, go_on=how)
    return measured(options, folder, progress, lambda: resumption.carry_out(limit_s))
