"""Have a run measured by jobs of a cluster (SLURM, Ray): a job for each group of cases, merged into one run.

torchstone submit distilbert --on slurm --partition gpu --gres gpu:1 --device cuda --time 1:00:00
torchstone submit my-sweep.yaml --on slurm --setup 'module load cuda/12.4' --dry-run   (write and print the scripts)
torchstone submit my-sweep.yaml --on ray --address auto
torchstone submit --merge RUN --follow                        (wait for the jobs of a run, merge, show)
torchstone resume RUN                                         (submit again only what is missing)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._measuring import add_busy, busy_of
from torchstone.cli._output import add_json, print_json, run_json, show_document
from torchstone.cli._place import add_folder, folder_of, writable
from torchstone.cli._run_options import add_run_options, at_least, request_from
from torchstone.core.errors import ExitCode, UsageError
from torchstone.plugins import registry

if TYPE_CHECKING:
    from torchstone.core.schema.submission import Submission
    from torchstone.workflows.submit.submitting import ShareProgress, SubmittedRun

_WANTED = (
    "partition",
    "account",
    "qos",
    "gres",
    "constraint",
    "cpus",
    "memory",
    "time",
    "at_most",
    "address",
    "accelerator_type",
    "container",
    "requeue_at_limit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of submit."""
    add_run_options(parser)
    where = parser.add_argument_group("where to measure")
    where.add_argument("--on", metavar="CLUSTER", help="slurm or ray (torchstone list clusters)")
    where.add_argument(
        "--cases-per-job",
        type=int,
        metavar="N",
        default=1,
        help="cases that one job measures, on one machine (default 1)",
    )
    add_busy(where)
    where.add_argument("--cpus", metavar="N", help="CPUs of a job")
    where.add_argument(
        "--dry-run", action="store_true", help="write the scripts and print them; submit nothing: `resume RUN` does"
    )
    where.add_argument("--follow", action="store_true", help="wait until all jobs have ended, then merge and show")
    where.add_argument("--merge", metavar="RUN", help="merge what the jobs of a submitted run have recorded so far")
    where.add_argument(
        "--no-rehearsal",
        action="store_true",
        help="do not try one step of your own code here, on the CPU, before jobs are submitted",
    )
    where.add_argument(
        "--report", metavar="F", default="md", help="formats of the report of the merged run, as `report --format` (md)"
    )
    slurm = parser.add_argument_group("SLURM")
    slurm.add_argument("--partition", metavar="P", help="partition of the jobs")
    slurm.add_argument("--account", metavar="A", help="account that the jobs are charged to")
    slurm.add_argument("--qos", metavar="Q", help="quality of service")
    slurm.add_argument("--gres", metavar="G", help="generic resources of a job, for example gpu:1 or gpu:a100:1")
    slurm.add_argument("--constraint", metavar="C", help="features of the nodes")
    slurm.add_argument("--memory", metavar="M", help="memory of a job, for example 16G")
    slurm.add_argument("--time", metavar="T", help="time limit of a job as SLURM writes it, for example 1:00:00")
    slurm.add_argument("--at-most", metavar="N", help="jobs that may run at once")
    slurm.add_argument("--no-requeue", action="store_true", help="do not start a preempted job again")
    slurm.add_argument(
        "--requeue-at-limit",
        metavar="N",
        help="requeue a job that reaches its time limit, up to N times: it continues with the missing trials",
    )
    slurm.add_argument(
        "--container",
        metavar="IMAGE",
        help="measure in a container that has torchstone: x.sif, docker://x by Apptainer; x.sqsh, nvcr.io#x by pyxis",
    )
    slurm.add_argument(
        "--setup",
        action="append",
        metavar="LINE",
        help="a line of shell before torchstone starts in a job, as 'module load cuda/12.4', or a file of such lines",
    )
    slurm.add_argument(
        "--sbatch", action="append", metavar="LINE", help="one more #SBATCH line, for example --sbatch=--exclusive"
    )
    ray = parser.add_argument_group("Ray")
    ray.add_argument(
        "--address", metavar="A", help="address of the cluster (default auto: $RAY_ADDRESS, or this node's)"
    )
    ray.add_argument("--accelerator-type", metavar="T", help="kind of accelerator, as Ray names it, for example A100")
    add_json(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Submit, or merge what was submitted; print what to type next, or the results."""
    folder = writable(folder_of(options))
    if options.merge is not None:
        return _merge(options, folder)
    if options.on is None:
        names = ", ".join(registry.names("clusters"))
        raise UsageError(f"name the cluster: --on NAME (known: {names}); or --merge RUN, for a run that was submitted")
    submission = _planned(options, folder)
    if options.dry_run:
        return _dry_run(options, folder, submission)
    from torchstone.report.documents.runs import submitted_document
    from torchstone.workflows.submit.submitting import hand_over, standings

    place, job_id = hand_over(submission, folder)
    waits = options.follow or not any(one.open for one in standings(place))
    if options.json and not waits:
        print_json(
            {"run_id": submission.head.run_id, "job": job_id, "jobs": len(submission.shares), "folder": str(place)}
        )
    elif not options.json:
        show_document(submitted_document(submission, job_id, place))
    return merge_and_show(options, place) if waits else ExitCode.DONE


def merge_and_show(options: argparse.Namespace, place: Path, *, follow: bool = True) -> int:
    """Wait for the jobs, merge, show; exit 1 where trials are missing or none succeeded."""
    from torchstone.workflows.submit.submitting import is_ok, take_in, wait

    if follow:
        try:
            wait(place, lambda now: None if options.quiet else print(_progress(now), file=sys.stderr, flush=True))
        except KeyboardInterrupt:
            print(f"torchstone: interrupted; the jobs go on: `torchstone submit --merge {place.name}`", file=sys.stderr)
            return ExitCode.INTERRUPTED
    taken = take_in(place)
    _show(options, place, taken)
    return ExitCode.DONE if is_ok(taken.summary) and all(one.complete for one in taken.standings) else ExitCode.NO


def _progress(now: Sequence[ShareProgress]) -> str:
    """Return how far all jobs are, in a line."""
    from torchstone.core.schema.submission import Phase
    from torchstone.workflows.submit.submitting import reasons

    have, planned = (sum(one.trials[place] for one in now) for place in (0, 1))
    phases = [one.state.phase if one.state is not None else Phase.OVER for one in now]
    why = reasons(now)
    counts = {phase: f"{phases.count(phase)} {phase}" for phase in Phase}
    if why:
        counts[Phase.WAITING] += f" ({', '.join(why)})"
    return f"{have}/{planned} trials · jobs: {', '.join(counts.values())}"


def _planned(options: argparse.Namespace, folder: Path) -> Submission:
    from torchstone.cli._progress import ProgressBar
    from torchstone.report.rendering import formats
    from torchstone.workflows.submit.planning import SubmitRequest, planned

    for word in options.report.split(","):
        if word not in formats():
            raise UsageError(f"--report {word}: known are {', '.join(formats())}")
    wanted = {name: value for name in _WANTED if (value := getattr(options, name)) is not None}
    if options.no_requeue:
        wanted["requeue"] = "no"
    if options.sbatch:
        wanted["sbatch"] = "\n".join(options.sbatch)
    if options.setup:
        wanted["setup"] = "\n".join(_lines_of(word) for word in options.setup)
    for name in ("cpus", "at_most", "requeue_at_limit"):
        if name in wanted and not (wanted[name].isdigit() and int(wanted[name])):
            raise UsageError(f"--{name.replace('_', '-')} {wanted[name]}: a number, 1 or more")
    busy_of(options)  # refuses a wrong word
    at_least("--cases-per-job", options.cases_per_job, 1)
    how = SubmitRequest(
        options.on,
        wanted,
        options.cases_per_job,
        folder,
        options.report,
        rehearse=not (options.no_rehearsal or options.dry_run or options.container),
        when_busy=options.when_busy,
    )
    progress = ProgressBar(quiet=True, verbose=False)
    return planned(request_from(options), how, sys.argv[1:], progress)


def _lines_of(word: str) -> str:
    """Return a line of --setup as it is, or the lines of the file that it names."""
    path = Path(word)
    try:
        return path.read_text(encoding="utf-8").rstrip("\n") if path.is_file() else word
    except (OSError, ValueError) as fault:
        raise UsageError(f"--setup {word}: cannot be read: {fault}") from None


def _dry_run(options: argparse.Namespace, folder: Path, submission: Submission) -> int:
    from torchstone.storage.submissions import submission_folder, write_submission

    place = submission_folder(folder.absolute(), submission.head.run_id)
    scripts = dict(registry.load("clusters", submission.cluster).scripts(submission, place))
    write_submission(place, submission, scripts)
    print(
        f"torchstone: nothing is submitted: edit the scripts in {place}, then torchstone resume {place.name}",
        file=sys.stderr,
    )
    if options.json:
        print_json({"run_id": place.name, "folder": str(place), "scripts": scripts})
        return ExitCode.DONE
    # As they are, so that they can be piped into a file: a renderer would wrap their lines.
    for name, text in scripts.items():
        print(f"# {place / name}\n{text}")
    return ExitCode.DONE


def _merge(options: argparse.Namespace, folder: Path) -> int:
    from torchstone.storage.submissions import find_submission

    place = find_submission(folder, options.merge)
    if place is None:
        raise UsageError(f"no submitted run '{options.merge}' in {folder}: give its id, a prefix of it, or its name")
    return merge_and_show(options, place, follow=options.follow)


def _show(options: argparse.Namespace, place: Path, taken: SubmittedRun) -> None:
    from torchstone.workflows.submit.submitting import node_hours

    used = node_hours(taken.standings)
    if options.json:
        print_json({**run_json(taken.summary), "node_hours": used[0], "node_hours_are_at_least": used[1]})
        return
    from torchstone.report.document import Document
    from torchstone.report.documents.run import measured_document, run_document
    from torchstone.report.documents.runs import share_parts
    from torchstone.storage.submissions import read_plan

    run = measured_document(taken.results) if taken.results is not None else run_document(taken.summary)
    parts = share_parts(read_plan(place / "plan.json"), taken.standings, taken.twice, used)
    show_document(Document(run.title, (*parts, *run.parts)))
