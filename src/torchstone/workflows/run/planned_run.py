"""From a request to stored results: check it, rehearse what is the user's own, measure, write, index."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.analysis.rows import case_rows
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.core.own_files import replacing
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Event, Inspected, Measured, RehearseRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.ranks import most_nodes, widest
from torchstone.core.schema.request import notes
from torchstone.core.schema.run import Head, Plan, Run
from torchstone.core.schema.run_document import performance_summaries
from torchstone.core.schema.trial import Status
from torchstone.execution import plan
from torchstone.execution.controller.active_run import missing, take_all
from torchstone.execution.controller.device_lock import SHARE, WhenBusy, held
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.plan import Sketch
from torchstone.execution.program.process import SCHEME, words_of
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins import registry
from torchstone.storage.index import sync
from torchstone.storage.measured import usual_spread
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import unwritten
from torchstone.storage.run_document import write_document

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest


@contextmanager
def begin_run(
    session: Session,
    machine: Machine,
    placements: Sequence[Placement],
    name: str,
    command: Sequence[str],
    busy: WhenBusy,
    **about: Any,
) -> Iterator[tuple[Head, float]]:
    """Hold the devices of a run that begins now; yield its Head, not written yet, and the seconds it waited for them.

    `about`: further fields of the Head. Its Plan is empty: the user's own code is rehearsed on the devices before there
    is one.
    """
    head = session.head(Plan((), ()), machine, name, command, **about)
    asked_s = system_clock()
    with held(placements, machine, head.run_id, busy):
        yield head, system_clock() - asked_s


def code_of(sketches: Sequence[Sketch]) -> dict[str, str]:
    """Return the digest of each model's file, by the model's name, where it is the user's own."""
    return {one.workload.model: one.code_sha256 for one in sketches if one.code_sha256 is not None}


class Results(msgspec.Struct, frozen=True):
    """A run that has ended. `remaining`: how many trials of its plan it lacks."""

    summary: RunSummary
    document: Path
    table: Path
    remaining: int


def table_path(folder: Path, run_id: str) -> Path:
    """Return where the table of a run's Cases lies. It is written last: where it is, the run wants nothing."""
    return folder / "data" / f"{run_id}_cases.csv"


def published(run: Run, folder: Path) -> Results:
    """Write document and table, and return them with the summary. Raises MissingError if the disk is full."""
    summary = summarize(entry_of(run, Path()))
    rows = case_rows(run, summary)
    diverged = {finding.subject for finding in run.findings if finding.check == "loss_diverged"}
    document = write_document(run, folder, summary=performance_summaries(rows, diverged))
    table = table_path(folder, run.head.run_id)
    try:
        with replacing(table, folder) as beside:  # half a table would say that the run is complete
            registry.load("exporters", "csv").write(run, rows, beside)
    except OSError as fault:
        raise unwritten(table, fault, folder, run.head) from fault
    sync(folder)
    summary = msgspec.structs.replace(summary, record=str(record_path(folder, run.head.run_id)))
    return Results(summary, document, table, sum(1 for _ in missing(run)))


class Campaign:
    """One `torchstone run`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: RunRequest, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        self._request = request
        self._watcher = watcher
        self._busy = busy
        requests = [workload.excluding(request.exclude) for workload in request.workloads]
        self._sketches = [plan.sketch(one) for one in requests]

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`; return the summary, and where document and table are."""
        began_s = system_clock()
        request, preload = self._request, [sketch.workload.model for sketch in self._sketches]
        wanted = [one for sketch in self._sketches for one in sketch.configurations]
        nodes = most_nodes(wanted)
        with Session(request.procedure, preload, self._watcher, nodes=nodes) as session:
            machine, found = session.inspect()
            words = (request.device or "auto").split(",")
            placements, absent = places(words, found, machine, absent_ok=request.absent_ok)
            how = session.procedure
            held = [widest(placement, wanted) for placement in placements]
            with begin_run(
                session,
                machine,
                held,
                request.name or "run",
                command,
                self._busy,
                source=request.source,
                code=code_of(self._sketches),
                usual=usual_spread(folder, machine),
            ) as (draft, waited_s):
                began_s += waited_s  # waiting for others is not part of the run's time
                sketches = [self._rehearsed(session, sketch, placements[0], machine) for sketch in self._sketches]
                whole = plan.arrange(sketches, placements, machine, how.repetitions, how.seed, request.first)
                told = notes([one.configurations for one in sketches], placements)
                others = plan.arrange(sketches, list(absent), machine, 0, how.seed)
                head = msgspec.structs.replace(draft, plan=_with_cases(whole, others))
                run = take_all(session, head, folder, began_s, request.first, absent, told)
        return published(run, folder)

    @staticmethod
    def _rehearsed(session: Session, sketch: Sketch, placement: Placement, machine: Machine) -> Sketch:
        """Return a Sketch with what the user's own code decides, rehearsed in its first configuration."""
        if not sketch.own:
            return sketch
        return plan.with_own_data(
            sketch, session.rehearsed(plan.first_case(sketch, placement, machine), sketch.left_open)
        )


def places(
    words: Sequence[str], inspected: Inspected, machine: Machine, *, absent_ok: bool
) -> tuple[list[Placement], dict[Placement, str]]:
    """Return the Placements of several words, and of those that are not here the reason, where that is allowed.

    Raises UsageError as `plan.place` does where it is not, and where none of them is here.
    """
    each = [plan.find_placement(word, inspected, machine) for word in words]
    here = [placement for placement, why_not in each if why_not is None]
    if not absent_ok or not here:
        here = [plan.place(word, inspected, machine) for word in words]
    return here, {placement: why_not for placement, why_not in each if why_not is not None}


def _with_cases(whole: Plan, others: Plan) -> Plan:
    """Return a Plan that also names the Cases of another one, of which no trial is taken."""
    known = {case.case_id for case in whole.cases}  # which card of several equal ones it is, is no part of a Case
    more = tuple(case for case in others.cases if case.case_id not in known)
    return msgspec.structs.replace(whole, cases=(*whole.cases, *more))


PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


class ProgramRequest(msgspec.Struct, frozen=True):
    """What was typed: the words of the command, values of the axes that stand in it as `{name}`, and how to measure.

    `step`: with what a step of the program ends; auto: an optimizer's step, or a forward pass without gradients.
    """

    words: tuple[str, ...]
    axes: Mapping[str, tuple[Scalar, ...]]
    procedure: Procedure
    name: str | None = None
    device: str = "auto"
    item: str = "sample"
    step: str = "auto"


def check(request: ProgramRequest) -> None:
    """Raise UsageError for an axis without a place in the command, and a place without an axis."""
    places = {name for word in request.words for name in PLACEHOLDER.findall(word)}
    for name in request.axes:
        if name not in places:
            raise UsageError(f"axis {name}: the command has no {{{name}}}; write it where the value goes")
    whole = {found[1] for word in request.words if (found := re.fullmatch(r"(?:[^=]*=)?\{([A-Za-z_]\w*)\}", word))}
    for name in sorted(whole - set(request.axes)):
        raise UsageError(f"{{{name}}} has no values: --axis {name}=V1,V2 before the --")


class ProgramCampaign:
    """One `torchstone run -- COMMAND`. The command is tried, to its second step, before anything is written."""

    def __init__(self, request: ProgramRequest, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        check(request)
        self._request, self._watcher, self._busy = request, watcher, busy

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`. Raises UsageError where the command fails, or has no step that can be seen."""
        began_s, request = system_clock(), self._request
        with Session(request.procedure, (), self._watcher) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device, found, machine)
            with begin_run(
                session,
                machine,
                [placement],
                name_of(request),
                command,
                self._busy,
                usual=usual_spread(folder, machine),
            ) as (draft, waited_s):
                facts = tried(session, Case(workload_of(request), next(configurations(request)), placement))
                placement = placement_of(facts, placement, machine)
                workload = workload_of(request, Task(str(facts.task)))
                sketch = Sketch(workload, tuple(configurations(request)), own=True)
                how = session.procedure
                whole = plan.arrange([sketch], [placement], machine, how.repetitions, how.seed)
                head = msgspec.structs.replace(draft, plan=whole)
                run = take_all(session, head, folder, began_s + waited_s)
        return published(run, folder)


def tried(session: Session, case: Case, *, for_turns: bool = False) -> Facts:
    """Run a command to its second step; return what is known of it. Raises UsageError where it fails before."""
    listening = _ProgramWatcher()
    trial = TrialDrive(RehearseRequest(case, session.procedure, for_turns=for_turns), None, listening).run(
        session.launcher, 0
    )
    if trial.outcome.status != Status.OK or listening.measured is None:
        lines = [f"{shlex.join(words_of(case.workload.model, case.configuration))}: {trial.outcome.message}"]
        raise UsageError("\n".join([*lines, *(trial.outcome.traceback or "").splitlines()]))
    return listening.measured.facts


def workload_of(request: ProgramRequest, task: Task = Task.TRAIN) -> Workload:
    """Return the command as what is computed."""
    fixed = {} if request.step == "auto" else {"step": request.step}
    return Workload(task, f"{SCHEME}:{shlex.join(request.words)}", "own", request.item, None, fixed)


def configurations(request: ProgramRequest) -> Iterator[Mapping[str, Scalar]]:
    """Yield every combination of the values of its axes."""
    names = list(request.axes)
    return (dict(zip(names, point, strict=True)) for point in itertools.product(*request.axes.values()))


def name_of(request: ProgramRequest) -> str:
    """Return what its run is called: as was said, or like the script."""
    return request.name or Path(request.words[-1 if len(request.words) == 1 else 1]).name


class _ProgramWatcher(Silent):
    """A Watcher that keeps what a program measured of itself."""

    measured: Measured | None = None

    def heard(self, event: Event) -> None:
        """Keep it."""
        if isinstance(event, Measured):
            self.measured = event


def placement_of(facts: Facts, placement: Placement, machine: Machine) -> Placement:
    """Return the Placement on which the program computes, whatever was asked for: it decides that itself."""
    kind = str(facts.device)
    if kind == "cuda" and any(device.kind == "rocm" for device in machine.devices):
        kind = "rocm"
    return placement if kind == placement.device else Placement(kind)
