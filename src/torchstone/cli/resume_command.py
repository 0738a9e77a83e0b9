"""Continue a run that was killed, interrupted or out of time: measure only the missing trials.

torchstone resume                         (the newest run)
torchstone resume 20261121-101500-3fa9c2
torchstone resume my-sweep --time-limit 2h
torchstone resume --push                  (and to the store of the team)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from torchstone.cli._measuring import ProgressLines, add_measuring, busy_of, run_and_report
from torchstone.cli._output import show_document
from torchstone.cli._place import add_folder, add_push, folder_of, push_to
from torchstone.cli._run_options import positive_s
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of resume."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--force", action="store_true", help="continue although machine, recipe, code or data have changed"
    )
    parser.add_argument(
        "--time-limit", metavar="T", help="start no trial after this time (default: as given to the run)"
    )
    parser.add_argument("--address", metavar="A", help="of a run submitted to Ray: where its cluster is now")
    add_measuring(parser)
    add_push(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Take what is missing, print the table or the answer, and say where the files are."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.core.schema.run import Run
    from torchstone.execution.controller.active_run import ActiveRun, finish
    from torchstone.storage.query import locate, read_run
    from torchstone.workflows.run.reproduction import Resumption

    folder = folder_of(options)
    if (place := _submission(folder, options.run)) is not None:
        return _resume_submitted(options, place)
    if options.address is not None:
        raise UsageError("--address is for runs of `submit --on ray`: this one is measured here")
    limit_s, team = positive_s("--time-limit", options.time_limit), push_to(options)
    path = locate(folder, options.run)
    if read_run(path).head.tune is None:
        progress: ProgressLines = ProgressBar(quiet=options.quiet, verbose=options.debug)
        go_on: Callable[[ActiveRun, Run], Run] = finish
    else:
        from torchstone.cli.tune_command import TuneProgress
        from torchstone.workflows.tune.tune import going_on

        progress = tune_progress = TuneProgress(quiet=options.quiet, verbose=options.debug)
        go_on = going_on(tune_progress)
    resumption = Resumption(path, folder, progress, busy_of(options), force=options.force, go_on=go_on)
    return run_and_report(options, folder, progress, lambda: resumption.carry_out(limit_s), team=team)


def _submission(folder: Path, word: str) -> Path | None:
    """Return the folder of the submitted run that a word means; None where it means another run."""
    from torchstone.storage.query import runs
    from torchstone.storage.submissions import find_submission

    place = find_submission(folder, word)
    if place is None or word != "latest":
        return place
    newest = runs(folder, 1)
    return place if not newest or newest[0].run_id <= place.name else None


def _resume_submitted(options: argparse.Namespace, place: Path) -> int:
    """Submit what is missing of a submitted run, by the scripts in its folder."""
    from torchstone.cli.submit_command import merge_and_show
    from torchstone.report.documents.runs import submitted_document
    from torchstone.storage.submissions import read_plan
    from torchstone.workflows.submit.submitting import reasons, standings, submit_missing

    if options.push:
        raise UsageError(f"{place.name} is measured by jobs: push the merged run, `torchstone push {place.name}`")
    if options.time_limit or options.force:
        raise UsageError(f"{place.name} is measured by jobs: edit {place / 'job.sbatch'} instead, or submit a new run")
    now = standings(place)
    if all(one.complete for one in now):
        raise UsageError(f"{place.name}: nothing is missing, all {len(now)} jobs are done")
    job_id, shares = submit_missing(place, now, options.address)
    if job_id is None:
        waiting = f" ({', '.join(why)})" if (why := reasons(now)) else ""
        follow = f"`torchstone submit --merge {place.name} --follow`"
        raise UsageError(f"{place.name}: its jobs are still waiting{waiting} or running; {follow}")
    show_document(submitted_document(read_plan(place / "plan.json"), job_id, place, shares))
    waits = not any(one.open for one in standings(place))
    return merge_and_show(options, place) if waits else ExitCode.DONE
