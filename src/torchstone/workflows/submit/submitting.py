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
from torchstone.core.schema import facts
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.ranks import most_nodes
from torchstone.core.schema.run import End, Head, Run
from torchstone.core.schema.submission import Phase, ShareState, Submission
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.controller.active_run import missing
from torchstone.plugins import registry
from torchstone.plugins.checking import look
from torchstone.plugins.machine_protocols import Cluster, HalfSubmitted
from torchstone.storage.importing import write_run
from torchstone.storage.query import find
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.submissions import (
    attempt_records,
    claim_publishing,
    exit_status,
    jobs,
    last_words,
    note_job,
    read_plan,
    submission_folder,
    write_submission,
)
from torchstone.workflows.run.planned_run import Results, published, table_path
from torchstone.workflows.submit.planning import finished, is_complete, lasted_s, plans

_Key = tuple[str, int]


class Merged(msgspec.Struct, frozen=True):
    """The whole run, and how many trials two jobs took: those of the job that began first are in it."""

    run: Run
    twice: int


def merge_shares(
    submission: Submission, attempts: Sequence[Run], stored: Run | None, lost: Mapping[int, str]
) -> Merged:
    """Return the whole run. `stored`: as it was merged before. `lost`: by share, how the job that is over ended.

    Where nothing has come since, the run is `stored` itself. Trials that a job which is over did not take are in it as
    `interrupted`, with how it ended: `resume` takes them.
    """
    machines = list(stored.head.machines) if stored is not None else []
    kept = {} if stored is None else {_key(t): t for t in stored.trials if t.outcome.status != Status.INTERRUPTED}
    ids, twice = {trial.trial_id for trial in kept.values()}, 0
    for part in sorted(attempts, key=lambda run: (run.head.started_utc, run.head.run_id)):
        for trial in part.trials:
            if trial.outcome.status == Status.INTERRUPTED or trial.trial_id in ids:
                continue
            if _key(trial) in kept:
                twice += 1
                continue
            kept[_key(trial)] = _on_machine(trial, part.head, machines)
            ids.add(trial.trial_id)
    trials = [msgspec.structs.replace(trial, order=order) for order, trial in enumerate(kept.values())]
    head = _head(submission, machines)
    so_far = Run(head, tuple(trials), (), None)
    trials += _gone(submission, so_far, lost)
    status = "interrupted" if any(missing(so_far)) else "done"
    ends = [part.end.ended_utc for part in attempts if part.end is not None]
    end = End(max(ends, default=head.started_utc), status, _why(attempts) if status == "done" else None)
    if stored is not None and (stored.head, stored.trials, stored.end) == (head, tuple(trials), end):
        return Merged(stored, twice)
    run = Run(head, tuple(trials), (), None)
    return Merged(msgspec.structs.replace(run, findings=(*submission.notes, *look(run)), end=end), twice)


def _key(trial: Trial) -> _Key:
    return trial.case_id, trial.number


def _on_machine(trial: Trial, part: Head, machines: list[Machine]) -> Trial:
    """Return a trial that knows its job and its machine, which is added where it is new."""
    if part.machine not in machines:
        machines.append(part.machine)
    where = Facts(machine=machines.index(part.machine), job=part.run_id)
    return msgspec.structs.replace(trial, facts=facts.merged(trial.facts, where))


def _head(submission: Submission, machines: Sequence[Machine]) -> Head:
    """Return the head of the merged run: its machine is the first that has the devices of the plan."""
    head = submission.head
    places = {(case.placement.device, case.placement.index) for case in head.plan.cases}
    fitting = (one for one in machines if all(one.device(*place) is not None for place in places))
    machine = next(fitting, machines[0] if machines else head.machine)
    return msgspec.structs.replace(head, machine=machine, machines=tuple(machines))


def _gone(submission: Submission, so_far: Run, lost: Mapping[int, str]) -> list[Trial]:
    """Return a trial for each that a job which is over did not take: interrupted, with how the job ended."""
    share_of = {case: number for number, share in enumerate(submission.shares) for case in share}
    cases = so_far.head.plan.cases
    found: list[Trial] = []
    for _, slot in missing(so_far):
        if (why := lost.get(share_of[slot.case])) is not None:
            case_id = cases[slot.case].case_id
            outcome = Outcome(Status.INTERRUPTED, why)
            order = len(so_far.trials) + len(found)
            name = f"{case_id}-{slot.number}"
            found.append(Trial(name, case_id, slot.number, order, so_far.head.started_utc, 0.0, outcome))
    return found


def _why(attempts: Sequence[Run]) -> str | None:
    """Return why no more trials were taken, where that is the same of all shares."""
    reasons = {part.end.why for part in attempts if part.end is not None and part.end.status == "done"}
    return reasons.pop() if len(reasons) == 1 else None


_FIRST_WAIT_S, _MOST_WAIT_S, _GROWS = 1.0, 15.0, 1.3  # between two looks at a cluster
_FORGOTTEN = "the cluster no longer knows it: cancelled before it began, or long ago"
_MOST_SILENT = 20  # looks at a cluster that does not answer, five minutes


class ShareProgress(msgspec.Struct, frozen=True):
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


class SubmittedRun(msgspec.Struct, frozen=True):
    """What came of a submitted run so far. `results`: where its files are, once it has everything.

    `twice`: trials that two jobs took; those of the one that began first count.
    """

    summary: RunSummary
    results: Results | None
    standings: tuple[ShareProgress, ...]
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
    folder: Path, standings: Sequence[ShareProgress], address: str | None = None
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


def standings(folder: Path, attempts: Sequence[tuple[int, Run]] | None = None) -> tuple[ShareProgress, ...]:
    """Return how far each share is, as the cluster and the records say. `attempts`: the records, if they are read."""
    submission = read_plan(folder / "plan.json")
    cluster: Cluster = registry.load("clusters", submission.cluster)
    states = _states(cluster, folder)
    nodes = most_nodes(case.configuration for case in submission.head.plan.cases) if cluster.spreads else None
    of_share: dict[int, list[Run]] = {}
    for number, run in attempt_records(folder) if attempts is None else attempts:
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
        found.append(ShareProgress(share, state, trials, complete, why, node_s, accounted))
    return tuple(found)


def node_hours(standings: Sequence[ShareProgress]) -> tuple[float | None, bool]:
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


def wait(
    folder: Path, say: Callable[[Sequence[ShareProgress]], None], sleep: Callable[[float], None] = time.sleep
) -> None:
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


def take_in(folder: Path) -> SubmittedRun:
    """Merge what the jobs recorded into the run of the output folder; return it. Twice changes nothing.

    Document and table are written when nothing is missing any more. Raises UsageError where nothing is there yet.
    """
    submission = read_plan(folder / "plan.json")
    output, run_id = folder.parent.parent, submission.head.run_id
    target = record_path(output, run_id)
    attempts = list(attempt_records(folder))
    now = standings(folder, attempts)
    lost = {one.share: _lost(one) for one in now if not one.complete and one.state is not None and not one.open}
    stored = read_record(target) if target.exists() else None
    whole = merge_shares(submission, [run for _, run in attempts], stored, lost)
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
        return SubmittedRun(results.summary, results, now, whole.twice)
    return SubmittedRun(summarize(find(output, run_id)), None, now, whole.twice)


def reasons(standings: Sequence[ShareProgress]) -> list[str]:
    """Return what jobs wait for, in the cluster's words."""
    return sorted({one.state.why for one in standings if one.state is not None and one.state.why is not None})


def _lost(one: ShareProgress) -> str:
    assert one.state is not None
    return f"job {one.state.job} ended: {one.state.word}" + (f" ({one.why})" if one.why else "")


def is_ok(summary: RunSummary) -> bool:
    """Say whether one trial at least succeeded."""
    return any(trial.outcome.status == Status.OK for case in summary.cases for trial in case.trials)
