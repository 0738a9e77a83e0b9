"""Merging by content: what the jobs of a submitted run recorded becomes one run. Merged again, nothing changes.

A trial is known by its case and number. Where two jobs took the same one, the trial of the job that began first
counts. What is merged already stays, in its order, so that a longer merge of the same run begins with a shorter one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.schema import facts
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import End, Head, Run
from torchstone.core.schema.submission import Submission
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.controller.active_run import missing
from torchstone.plugins.checking import look

_Key = tuple[str, int]


class Merged(msgspec.Struct, frozen=True):
    """The whole run, and how many trials two jobs took: those of the job that began first are in it."""

    run: Run
    twice: int


def merged(submission: Submission, attempts: Sequence[Run], stored: Run | None, lost: Mapping[int, str]) -> Merged:
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
            kept[_key(trial)] = _placed(trial, part.head, machines)
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


def _placed(trial: Trial, part: Head, machines: list[Machine]) -> Trial:
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
