"""From a request to a plan that jobs carry out: the same sketches and the same order as of `run`, in shares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.ranks import most_nodes
from torchstone.core.schema.request import notes
from torchstone.core.schema.run import SCHEMA, Head, Plan, Run, Slot
from torchstone.core.schema.submission import Submission
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution import machine_facts, plan
from torchstone.execution.controller.active_run import ActiveRun, finish, missing
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.plan import Sketch
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Cluster
from torchstone.storage.record_writer import RecordWriter
from torchstone.storage.submissions import attempt_records, part_path, read_plan
from torchstone.workflows.run.planned_run import begin_run, code_of, places
from torchstone.workflows.run.reproduction import recheck, workloads

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest


class SubmitRequest(msgspec.Struct, frozen=True):
    """How a run is handed over. `rehearse`: the user's own code does one step here first, on the CPU.

    `when_busy`: what a job does while another torchstone measures on its cards or cores.
    """

    cluster: str
    wanted: Mapping[str, str]
    cases_per_job: int
    output: Path
    formats: str = "md"
    rehearse: bool = True
    when_busy: str = "wait"


def planned(request: RunRequest, asked: SubmitRequest, command: Sequence[str], watcher: Watcher) -> Submission:
    """Return what jobs are told. Everything that can be wrong with the request is found here. Raises UsageError."""
    cluster: Cluster = registry.load("clusters", asked.cluster)
    for name in asked.wanted:
        if name not in cluster.takes:
            raise UsageError(f"--{name.replace('_', '-')} is not an option of {asked.cluster}")
    sketches = [plan.sketch(workload.excluding(request.exclude)) for workload in request.workloads]
    placements = _placements(request.device, asked.wanted)
    for sketch in sketches:
        if any(one.get("precision") == "auto" for one in sketch.configurations):
            raise UsageError("precision=auto is decided by a device that only the job sees; name one: fp32, bf16, …")
    machine = Machine(machine_facts.host(), (), {}, machine_facts.settings())
    procedure = request.procedure
    if asked.rehearse:
        sketches = _rehearsed(sketches, request, watcher)
    whole = plan.arrange(sketches, placements, machine, procedure.repetitions, procedure.seed, request.first)
    # Not entered: it is the same head as that of a run, without anything started.
    head = Session(procedure, ()).head(
        whole, machine, request.name or "run", command, source=request.source, code=code_of(sketches)
    )
    if not cluster.spreads and any(case.placement.nodes > 1 for case in whole.cases):
        raise UsageError(f"nodes: a task of {asked.cluster} measures on one machine; --on slurm has several for a job")
    told = notes([one.configurations for one in sketches], placements)
    return Submission(
        SCHEMA,
        head,
        shares_of(whole, asked.cases_per_job),
        asked.cluster,
        asked.wanted,
        str(Path.cwd()),
        str(asked.output.absolute()),
        sys.executable,
        asked.formats,
        tuple(told),
        asked.when_busy,
    )


def shares_of(whole: Plan, cases_per_job: int) -> tuple[tuple[int, ...], ...]:
    """Return the places of the cases in shares of so many, in the order of the plan: neighbours share a machine."""
    places = range(len(whole.cases))
    return tuple(tuple(places[start : start + cases_per_job]) for start in range(0, len(places), cases_per_job))


def _placements(words: str, wanted: Mapping[str, str]) -> list[Placement]:
    """Return the Placements of the words of --device. What `auto` means is not asked of this machine: it has no job."""
    found = []
    for word in words.split(","):
        kind, _, number = word.partition(":")
        if word == "auto":
            if "gpu" in wanted.get("gres", "") or "accelerator_type" in wanted:
                raise UsageError("name the kind of device that the jobs get: --device cuda (or rocm, xpu)")
            kind = "cpu"
        if kind not in (kinds := registry.names("devices")):
            raise unknown("device", word, (*kinds, "auto"))
        found.append(Placement(kind, int(number) if number.isdigit() else 0))
    return found


def _rehearsed(sketches: Sequence[Sketch], request: RunRequest, watcher: Watcher) -> list[Sketch]:
    """Return the Sketches with what the user's own code decides, as one step on this machine's CPU shows."""
    if not any(sketch.own for sketch in sketches):
        return list(sketches)
    found = []
    with Session(request.procedure, [sketch.workload.model for sketch in sketches], watcher) as session:
        machine, _ = session.inspect()
        for sketch in sketches:
            case = plan.first_case(sketch, Placement("cpu"), machine)
            own = sketch.own
            found.append(plan.with_own_data(sketch, session.rehearsed(case, sketch.left_open)) if own else sketch)
    return found


class ShareDone(msgspec.Struct, frozen=True):
    """How a job went. `taken`: trials that this attempt measured; `left`: what the share still lacks."""

    run: Run | None
    measured: int
    left: int


class ShareRun:
    """One `torchstone run --plan FILE --share N`. What earlier attempts have recorded is not measured again.

    `attempt`: distinguishes this attempt's record from theirs. Raises UsageError for a share that there is not, or
    where models, data or code are not those of the plan.
    """

    def __init__(self, path: Path, share: int, attempt: str, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        self._submission = read_plan(path)
        if not 0 <= share < len(self._submission.shares):
            raise UsageError(f"--share {share}: {path} has the shares 0 to {len(self._submission.shares) - 1}")
        self._record = part_path(path.parent, share, attempt)
        self._watcher, self._busy = watcher, busy
        self._part = plans(self._submission)[share]
        attempts = [run for _, run in attempt_records(path.parent, share)]
        self._earlier = [trial for run in attempts for trial in run.trials]
        self._complete = is_complete(self._submission, self._part, attempts)
        self._id = f"{self._submission.head.run_id}-{share}-{attempt}"
        found = recheck(self._submission.head, self._part.cases)
        if found.changes:
            raise UsageError(f"not what was submitted: {'; '.join(found.changes)}; submit it again")
        self._own = found.own

    def carry_out(self, command: Sequence[str]) -> ShareDone:
        """Measure what is missing. Raises UsageError where the device is not here, or the record is written already."""
        if self._complete:
            return ShareDone(None, 0, 0)
        began_s, head = system_clock(), self._submission.head
        models = [workload.model for workload in workloads(self._part.cases)]
        nodes = most_nodes(case.configuration for case in self._part.cases)
        with Session(head.procedure, models, self._watcher, nodes=nodes) as session:
            machine, found = session.inspect()
            words = list(dict.fromkeys(str(case.placement) for case in self._part.cases))
            places(words, found, machine, absent_ok=False)  # refuses what is not here
            held = list(dict.fromkeys(case.placement for case in self._part.cases))
            with begin_run(
                session, machine, held, head.name, command, self._busy, source=head.source, code=head.code
            ) as (
                draft,
                waited_s,
            ):
                session.rehearse(self._own)
                run = self._measure(session, draft, began_s + waited_s)
        done = [*self._earlier, *run.trials]
        return ShareDone(run, len(run.trials), sum(1 for _ in missing(Run(run.head, tuple(done), (), None))))

    def _measure(self, session: Session, draft: Head, began_s: float) -> Run:
        head = msgspec.structs.replace(draft, run_id=self._id, plan=self._part)
        so_far = Run(head, finished(self._earlier), (), None)
        rest = Plan(self._part.cases, tuple(slot for _, slot in missing(so_far)))
        with RecordWriter(self._record, head) as writer:
            self._watcher.begins(msgspec.structs.replace(head, plan=rest))
            return finish(ActiveRun(session, writer, so_far, self._record.parent, began_s=began_s), so_far)


def plans(submission: Submission) -> list[Plan]:
    """Return the plan of each share: its cases, and their trials in the order of the whole plan."""
    whole = submission.head.plan
    places = {case: (share, at) for share, cases in enumerate(submission.shares) for at, case in enumerate(cases)}
    slots: list[list[Slot]] = [[] for _ in submission.shares]
    for slot in whole.slots:
        share, at = places[slot.case]
        slots[share].append(Slot(at, slot.number))
    return [
        Plan(tuple(whole.cases[case] for case in cases), tuple(own))
        for cases, own in zip(submission.shares, slots, strict=True)
    ]


def finished(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials that need not be taken again, each case and number once: the first one counts."""
    found: dict[tuple[str, int], Trial] = {}
    for trial in trials:
        if trial.outcome.status != Status.INTERRUPTED:
            found.setdefault((trial.case_id, trial.number), trial)
    return tuple(found.values())


def lasted_s(run: Run) -> float:
    """Return the seconds from the head of a record to its end, or to that of its last trial where that is later."""

    def since_s(utc: str) -> float:  # to whole seconds
        return (datetime.fromisoformat(utc) - datetime.fromisoformat(run.head.started_utc)).total_seconds()

    to_trials = [since_s(trial.started_utc) + trial.duration_s for trial in run.trials[-1:]]
    return max([*to_trials, since_s(run.end.ended_utc) if run.end is not None else 0.0])


def is_complete(submission: Submission, part: Plan, attempts: Sequence[Run]) -> bool:
    """Say whether nothing is left of a share; where the number of trials was open, an attempt has to have ended so.

    `part`: its plan.
    """
    head = msgspec.structs.replace(submission.head, plan=part)
    trials = finished([trial for run in attempts for trial in run.trials])
    if any(missing(Run(head, trials, (), None))):
        return False
    ended = any(run.end is not None and run.end.status == "done" for run in attempts)
    return ended or not submission.head.procedure.in_rounds
