"""Continue a run that was killed, interrupted or out of time: measure only the missing trials.

torchstone resume                         (the newest run)
torchstone resume 20261121-101500-3fa9c2
torchstone resume my-sweep --time-limit 2h
torchstone resume --push                  (and to the store of the team)
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._procedure_options import positive_s
from torchstone.cli._pushing import add_push, push_to
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from torchstone.storage.place import Team


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
    from torchstone.storage.query import locate, read_run

    folder = folder_of(options)
    if (place := submission_of(folder, options.run)) is not None:
        return _resume_submitted(options, place)
    if options.address is not None:
        raise UsageError("--address is for runs of `submit --on ray`: this one is measured here")
    limit_s, team = positive_s("--time-limit", options.time_limit), push_to(options)
    path = locate(folder, options.run)
    of_a_tune = read_run(path).head.tune is not None
    return (_resume_tune if of_a_tune else _resume_run)(options, folder, path, limit_s, team)


def submission_of(folder: Path, word: str) -> Path | None:
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
    from torchstone.cli._render import show_document
    from torchstone.cli.submit_command import finish
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
    return finish(options, place) if waits else ExitCode.DONE


def _resume_run(options: argparse.Namespace, folder: Path, path: Path, limit_s: float | None, team: Team | None) -> int:
    from torchstone.cli._progress import ProgressBar
    from torchstone.workflows.run.reproduction import Resumption

    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    resumption = Resumption(path, folder, progress, busy_of(options), force=options.force)
    return measured(options, folder, progress, lambda: resumption.carry_out(limit_s), team=team)


def _resume_tune(
    options: argparse.Namespace, folder: Path, path: Path, limit_s: float | None, team: Team | None
) -> int:
    from torchstone.cli._tune_progress import TuneProgress
    from torchstone.workflows.run.reproduction import Resumption
    from torchstone.workflows.tune.tune import going_on

    progress = TuneProgress(quiet=options.quiet, verbose=options.debug)
    how = going_on(progress)
    resumption = Resumption(path, folder, progress, busy_of(options), force=options.force, go_on=how)
    return measured(options, folder, progress, lambda: resumption.carry_out(limit_s), team=team)
