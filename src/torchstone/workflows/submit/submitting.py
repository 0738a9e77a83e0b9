"""Handing a plan to a cluster, seeing how far it is, and taking in what its jobs recorded."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.schema.ranks import most_nodes
from torchstone.core.schema.run import Run
from torchstone.core.schema.submission import Phase, ShareState, Submission
from torchstone.core.schema.trial import Status
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster, HalfSubmitted
from torchstone.storage.importing import write_run
from torchstone.storage.query import find
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.submissions import (
    claim_publishing,
    exit_status,
    jobs,
    last_words,
    note_job,
    parts,
    read_plan,
    submission_folder,
    write_submission,
)
from torchstone.workflows.run.results import Results, published, table_path
from torchstone.workflows.submit.merging import merged
from torchstone.workflows.submit.share import finished, is_complete, lasted_s, plans

_FIRST_WAIT_S, _MOST_WAIT_S, _GROWS = 1.0, 15.0, 1.3  # between two looks at a cluster
_FORGOTTEN = "the cluster no longer knows it: cancelled before it began, or long ago"
_MOST_SILENT = 20  # looks at a cluster that does not answer, five minutes


class Standing(msgspec.Struct, frozen=True):
    """How far a share is. `state`: of its newest job; None where it was never submitted. `trials`: (have, planned)."""

    share: int
    state: ShareState | None
    trials: tuple[int, int]
    complete: bool
    why: str | None = None  # what the job said last, or waits for, where something is missing
    node_s: float | None = None  # seconds on nodes of all its jobs; None: nothing is known
    accounted: bool = False  # by the cluster; else at least so much, by the records

    @property
    def open(self) -> bool:
        """Whether its job may still record something."""
        return self.state is not None and self.state.phase != Phase.OVER


class Taken(msgspec.Struct, frozen=True):
    """What came of a submitted run so far. `results`: where its files are, once it has everything.

    `twice`: trials that two jobs took; those of the one that began first count.
    """

    summary: RunSummary
    results: Results | None
    standings: tuple[Standing, ...]
    twice: int

    @property
    def missing(self) -> int:
        """How many trials of the plan are not there."""
        return sum(max(0, one.trials[1] - one.trials[0]) for one in self.standings)


def hand_over(submission: Submission, output: Path) -> tuple[Path, str]:
    """Write the folder of a new submission and submit all its shares; return the folder and the job's name.

    Where the cluster refuses nothing stays behind; where it took the jobs and refused only what follows them, all does.
    """
    folder = submission_folder(output, submission.head.run_id)
    cluster: Cluster = registry.load("clusters", submission.cluster)
    write_submission(folder, submission, dict(cluster.scripts(submission, folder.absolute())))
    try:
        return folder, _submit(cluster, submission, folder, range(len(submission.shares)))
    except TorchstoneError:
        if not jobs(folder) and not any((folder / "parts").iterdir()):
            shutil.rmtree(folder)
            with contextlib.suppress(OSError):  # other submissions are in it
                folder.parent.rmdir()
        raise


def _submit(cluster: Cluster, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
    try:
        job_id = cluster.submit(submission, folder.absolute(), shares)
    except HalfSubmitted as fault:
        note_job(folder, fault.job_id, tuple(shares))
        raise UsageError(f"{fault}, `torchstone submit --merge {folder.name} --follow` merges it") from None
    note_job(folder, job_id, tuple(shares))
    return job_id


def submit_missing(
    folder: Path, standings: Sequence[Standing], address: str | None = None
) -> tuple[str | None, list[int]]:
    """Submit the shares that lack trials and whose jobs are over; return the job's name (None: there are none).

    `address`: of the cluster, where it is another one by now.
    """
    submission = read_plan(folder / "plan.json")
    if address is not None:
        if "address" not in registry.load("clusters", submission.cluster).takes:
            raise UsageError(f"--address is not an option of {submission.cluster}")
        submission = msgspec.structs.replace(submission, wanted={**submission.wanted, "address": address})
    shares = [one.share for one in standings if not one.complete and not one.open]
    if not shares:
        return None, []
    return _submit(registry.load("clusters", submission.cluster), submission, folder, shares), shares


def standings(folder: Path, attempts: Sequence[tuple[int, Run]] | None = None) -> tuple[Standing, ...]:
    """Return how far each share is, as the cluster and the records say. `attempts`: the records, if they are read."""
    submission = read_plan(folder / "plan.json")
    cluster: Cluster = registry.load("clusters", submission.cluster)
    states = _states(cluster, folder)
    nodes = most_nodes(case.configuration for case in submission.head.plan.cases) if cluster.spreads else None
    of_share: dict[int, list[Run]] = {}
    for number, run in parts(folder) if attempts is None else attempts:
        of_share.setdefault(number, []).append(run)
    found = []
    for share, plan in enumerate(plans(submission)):
        own = of_share.get(share, [])
        complete = is_complete(submission, plan, own)
        have = len(finished([trial for run in own for trial in run.trials]))
        state, words, node_s = states.get(share, (None, None, None))
        accounted = node_s is not None
        if node_s is None and own and nodes is not None:
            node_s = nodes * sum(map(lasted_s, own)) or None
        trials, why = (have, len(plan.slots)), None if complete else words
        found.append(Standing(share, state, trials, complete, why, node_s, accounted))
    return tuple(found)


def node_hours(standings: Sequence[Standing]) -> tuple[float | None, bool]:
    """Return the node-hours of a run (None: unknown), and whether it may be more: where they come from records."""
    known = [one for one in standings if one.node_s is not None]
    begun = [one for one in standings if one.state is not None and one.state.phase != Phase.WAITING]
    hours = sum(one.node_s or 0.0 for one in known) / 3600.0 if known else None
    return hours, not all(one.accounted for one in (*known, *begun))


def _states(cluster: Cluster, folder: Path) -> Mapping[int, tuple[ShareState, str | None, float | None]]:
    """Return what the cluster says of each share's newest job; of one that it has forgotten, what the script left.

    The last of the three: seconds on nodes of all jobs of the share, where the cluster knows of each.
    """
    found: dict[int, tuple[ShareState, str | None, float | None]] = {}
    for job in jobs(folder):
        told = cluster.states(job, folder)
        for share in job.shares:
            state, words = told.get(share), last_words(folder, f"{job.job_id}_{share}.txt")
            if state is None:
                # SLURM keeps no trace of a task that was cancelled before it began.
                status = exit_status(folder, share, job.job_id)
                word = "UNKNOWN" if status is None else "COMPLETED" if status == 0 else "FAILED"
                state = ShareState(Phase.OVER, word, f"{job.job_id}_{share}")
                words = words or _FORGOTTEN
            before = found[share][2] if share in found else 0.0
            node_s = None if before is None or state.node_s is None else before + state.node_s
            found[share] = msgspec.structs.replace(state, node_s=None), words or state.why, node_s
    return found


def wait(folder: Path, say: Callable[[Sequence[Standing]], None], sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until each share is complete or its job over. `say` is told where something has changed.

    A job that was started again for a share which is complete by now has nothing to measure: nobody waits for it.
    A cluster that does not answer is asked again for a while. Raises MissingError where it stays silent.
    """
    before: object = None
    pause_s, silent = _FIRST_WAIT_S, 0
    while True:
        try:
            now, silent = standings(folder), 0
        except MissingError:  # its controller is being restarted
            silent += 1
            if silent > _MOST_SILENT:
                raise
            sleep(_MOST_WAIT_S)
            continue
        told = [(one.state, one.trials) for one in now]
        if told != before:
            say(now)
            before, pause_s = told, _FIRST_WAIT_S
        if not any(one.open and not one.complete for one in now):
            return
        sleep(pause_s)
        pause_s = min(_MOST_WAIT_S, pause_s * _GROWS)


def take_in(folder: Path) -> Taken:
    """Merge what the jobs recorded into the run of the output folder; return it. Twice changes nothing.

    Document and table are written when nothing is missing any more. Raises UsageError where nothing is there yet.
    """
    submission = read_plan(folder / "plan.json")
    output, run_id = folder.parent.parent, submission.head.run_id
    target = record_path(output, run_id)
    attempts = list(parts(folder))
    now = standings(folder, attempts)
    lost = {one.share: _lost(one) for one in now if not one.complete and one.state is not None and not one.open}
    stored = read_record(target) if target.exists() else None
    whole = merged(submission, [run for _, run in attempts], stored, lost)
    run = whole.run
    if not run.trials:
        if not jobs(folder):
            raise UsageError(f"{run_id}: nothing is submitted yet; `torchstone resume {run_id}` does it")
        waiting = f" (waiting: {', '.join(why)})" if (why := reasons(now)) else ""
        follow = f"`torchstone submit --merge {run_id} --follow`"
        raise UsageError(f"{run_id}: no job has recorded anything yet{waiting}; {follow}")
    if run is not stored:
        write_run(run, target)
    ended = all(one.complete for one in now)
    if ended and not table_path(output, run_id).exists() and claim_publishing(folder):
        results = published(read_record(target), output)
        return Taken(results.summary, results, now, whole.twice)
    return Taken(summarize(find(output, run_id)), None, now, whole.twice)


def reasons(standings: Sequence[Standing]) -> list[str]:
    """Return what jobs wait for, in the cluster's words."""
    return sorted({one.state.why for one in standings if one.state is not None and one.state.why is not None})


def _lost(one: Standing) -> str:
    assert one.state is not None
    return f"job {one.state.job} ended: {one.state.word}" + (f" ({one.why})" if one.why else "")


def is_ok(summary: RunSummary) -> bool:
    """Say whether one trial at least succeeded."""
    return any(trial.outcome.status == Status.OK for case in summary.cases for trial in case.trials)
