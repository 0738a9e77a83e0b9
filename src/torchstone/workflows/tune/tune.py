"""One tune, from its request to its stored answer: check, rehearse, search, final round, answer.

Each trial is in the record before the next.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from torchstone.analysis.advice.choices import NEAR_THE_TOP, SAFE_SHARE
from torchstone.core import units
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.case import Case
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.run import Head, Run
from torchstone.core.schema.search import Part, Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.execution import plan
from torchstone.execution.controller.active_run import ActiveRun, OutOfTime, conclude, record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session, for_objective
from torchstone.plugins import registry
from torchstone.plugins.protocols import Searcher
from torchstone.workflows.run.planned_run import Results, begin_run, code_of, published
from torchstone.workflows.tune.answering import answer_of, ranked_cases, reading_of, run_rounds, shortfall
from torchstone.workflows.tune.space import TuneSpace
from torchstone.workflows.tune.specification import TuneRequest, TuneSketch


class Probes:
    """Takes probes into an open run. `recorded`: those of a run that goes on; they are reused, not taken again."""

    def __init__(
        self,
        space: TuneSpace,
        open_run: ActiveRun,
        procedure: Procedure,
        watcher: TuneWatcher,
        recorded: Iterable[Trial] = (),
    ) -> None:
        self._space = space
        self._open_run = open_run
        self._procedure = procedure
        self._watcher = watcher
        self._recorded = deque(
            t for t in recorded if t.purpose == Purpose.PROBE and t.outcome.status != Status.INTERRUPTED
        )
        self._taken: dict[str, int] = {}
        self._answers: dict[str, AnswerCounts | None] = {}  # the first trial of a Case compares items
        self.readings: list[ProbeResult] = []

    def take(self, probe: Probe) -> ProbeResult:
        """Return what a probe tells, from the record if the same was asked there at this place, else by a trial."""
        case = self._space.case(probe.point, probe.part)
        case_id = case.case_id
        self._watcher.probing(probe, len(self.readings))
        number = self._taken[case_id] = self._taken.get(case_id, -1) + 1
        if self._recorded and self._recorded[0].case_id == case_id:
            trial = self._recorded.popleft()
            while self._recorded and (self._recorded[0].case_id, self._recorded[0].number) == (case_id, trial.number):
                trial = self._recorded.popleft()  # other programs disturbed the one before, and it was taken again
        else:
            self._recorded.clear()  # another torchstone searched differently: from here on everything is new
            self._open_run.add(case)
            trial = self._open_run.take(case, number, Purpose.PROBE, self._how(probe))
        self._answers[case_id] = answers = trial.facts.answers or self._answers.get(case_id)
        reading = reading_of(trial, probe, self._space.spec, answers)
        self.readings.append(reading)
        self._watcher.learned(reading)
        return reading

    def _how(self, probe: Probe) -> Procedure:
        """Return the Procedure of a probe: its window as long as the effort says, and nothing beside the window."""
        how, spec = self._procedure, self._space.spec
        how = msgspec.structs.replace(
            how,
            budget_s=how.budget_s * probe.effort,
            warmup_budget_s=how.warmup_budget_s * probe.effort,
            count_flops=False,
            phases=False,
            profile=False,
        )
        return for_objective(how, spec.objective, spec.base.placement)


def search(brief: SearchProblem, searcher: str, probes: Probes) -> list[Point]:
    """Let a searcher ask until it is done; return its points for the final round, best first."""
    plugin: Searcher = registry.load("searchers", searcher)
    asking = plugin.search(brief)
    try:
        probe = next(asking)
        while True:
            probe = asking.send(probes.take(probe))
    except StopIteration as done:
        found: Sequence[Point] = done.value or ()
        return list(found)


def allowed(readings: Iterable[ProbeResult]) -> list[ProbeResult]:
    """Return the readings of whole steps that keep to the constraints."""
    return [r for r in readings if r.probe.part == Part.WHOLE and r.value is not None and r.allowed]


class TuneWatcher(Watcher, Protocol):
    """A Watcher that is also told what the search asks and learns."""

    def searching(self, spec: TuneSpec, points: int) -> None:
        """A search over so many points begins."""

    def probing(self, probe: Probe, number: int) -> None:
        """The search asks for a probe, its `number`-th."""

    def learned(self, reading: ProbeResult) -> None:
        """A probe has told something."""

    def stage(self, text: str) -> None:
        """A new stage of the answer begins."""


_FINALISTS = 3
ROUNDS = 3  # of the final comparison, by default


class TuneCampaign:
    """One `torchstone tune`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: TuneRequest, watcher: TuneWatcher, busy: WhenBusy = SHARE) -> None:
        self._sketch = TuneSketch(request)
        self._request, self._objective = request.run, request.objective
        self._watcher = watcher
        self._busy = busy
        if "," in (request.run.device or ""):
            raise UsageError(f"--device {request.run.device}: tune takes one device at a time")

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Tune into `folder`."""
        request, sketch = self._request, self._sketch.sketch
        model = sketch.workload.model
        with Session(request.procedure, [model], self._watcher, nodes=self._sketch.nodes) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device or "auto", found, machine)
            session.procedure = for_objective(session.procedure, self._objective, placement)
            if not sketch.own:
                TuneSpace(self._sketch.spec(placement, machine, 1))  # what is wrong with it is said before anyone waits
            with begin_run(
                session,
                machine,
                [self._sketch.held(placement)],
                request.name or "tune",
                command,
                self._busy,
                source=request.source,
                code=code_of([sketch]),
            ) as (draft, _):
                if sketch.own:
                    first = plan.first_case(sketch, placement, machine)
                    self._sketch.take(session.rehearsed(first, sketch.left_open))
                spec = self._sketch.spec(placement, machine, session.procedure.trials or ROUNDS)
                TuneSpace(spec)  # one without a point is refused here, before anything is written
                head = msgspec.structs.replace(draft, tune=spec)
                run = record_run(session, head, folder, going_on(self._watcher), self._sketch.notes(placement))
        return published(run, folder)


def going_on(watcher: TuneWatcher) -> Callable[[ActiveRun, Run], Run]:
    """Return what `resume` does with the open run of a tune."""
    return lambda open_run, so_far: take(open_run, so_far, watcher)


def take(open_run: ActiveRun, so_far: Run, watcher: TuneWatcher) -> Run:
    """Carry a tune out in its open run, end the run and return it.

    Trials in `so_far` are reused: the search runs again, answered from the record as far as that goes.
    """
    head, spec = open_run.head, open_run.head.tune
    if spec is None:
        raise TorchstoneError(f"run {head.run_id} is not a tune")
    space, seed = TuneSpace(spec), open_run.session.procedure.seed
    watcher.searching(spec, len(space.points))
    probes = Probes(space, open_run, open_run.session.procedure, watcher, so_far.trials)

    def work() -> None:
        found = search(space.brief(_capacity_bytes(head, spec), seed), spec.searcher, probes)
        cases = _finalists(space, found, probes)
        is_open = open_run.session.procedure.trials is None
        watcher.stage(f"final rounds of {len(cases)}, {spec.final_trials}{' or more' * is_open} trials each")
        most_s = sum(reading.cost_s for reading in probes.readings) if is_open else 0.0  # as long as the search took
        final = run_rounds(cases, spec, open_run, seed, so_far.trials, most_s)
        if ranking := ranked_cases(final, spec):
            watcher.stage("verification of the best")
            with contextlib.suppress(OutOfTime):  # the answer is known; what explains it is a bonus
                _explain(space, probes, next(case for case in cases if case.case_id == ranking[0]))
            open_run.answer(answer_of(open_run.so_far(), space, final, ranking, probes.readings))

    return conclude(open_run, work)


def _finalists(space: TuneSpace, found: Sequence[Point], probes: Probes) -> list[Case]:
    """Return the Cases of the final round: the search's best, the leanest of the fast, the present settings."""
    points = list(found[:_FINALISTS])
    good = [r for r in allowed(probes.readings) if r.value is not None]
    top = max((r.value or 0.0 for r in good), default=0.0)
    near = [r for r in good if (r.value or 0.0) >= NEAR_THE_TOP * top and r.peak_bytes]
    if near and space.spec.objective in ("throughput", "efficiency"):
        points.append(max(near, key=lambda r: (r.value or 0.0) / (r.peak_bytes or 1.0)).probe.point)
    present = space.present()
    if not points:  # no probe was of whole steps: what is run now is all that can be answered with
        now = space.point_of(present) if present is not None else space.points[0]
        points.append(now if now in space.points else space.points[0])
    cases = [*map(space.case, points), *([present] if present is not None else [])]
    return list({case.case_id: case for case in cases}.values())


def _explain(space: TuneSpace, probes: Probes, best: Case) -> None:
    """Measure the throughput of the loader alone and of the device alone at the recommended settings."""
    if not space.brief(None, 0).separable:
        return
    point = space.point_of(best)
    asked = {(r.probe.part, space.case(r.probe.point, r.probe.part).case_id) for r in probes.readings}
    for part, why in ((Part.LOADER, "as recommended"), (Part.DEVICE, "as recommended")):
        if (part, space.case(point, part).case_id) not in asked:
            probes.take(Probe(point, part, 0.5, why))


def _capacity_bytes(head: Head, spec: TuneSpec) -> float | None:
    """Return what peak memory must stay below: as asked, or a tenth less than there is."""
    if spec.constraints.max_memory_bytes is not None:
        return spec.constraints.max_memory_bytes
    device = head.machine.device(spec.base.placement.device, spec.base.placement.index)
    return SAFE_SHARE * device.memory_bytes if device is not None and device.memory_bytes else None


def no_answer(run: Run) -> str | None:
    """Return why a tune that was not cut off has no answer: what came nearest to the limits, or how trials ended."""
    if run.answer is not None or run.head.tune is None or run.end is None or run.end.status != "done":
        return None
    space = TuneSpace(run.head.tune)
    tried: list[tuple[float, str, Case]] = []
    cases = {case.case_id: case for case in run.head.plan.cases}
    for trial in run.trials:
        case = cases[trial.case_id]
        if case.workload.task == space.spec.base.workload.task and trial.outcome.status == "ok":
            missed = shortfall(figures(trial).values, space.spec)
            if missed is not None:
                tried.append((missed[1], missed[0], case))
    if not tried:
        ends = sorted({f"{t.outcome.status}: {t.outcome.message}" for t in run.trials if t.outcome.status != "ok"})
        otherwise = (
            "none is shown to be as good as eager mode in fp32 (--quality-margin)"
            if run.trials
            else "no trial was started"
        )
        return f"no configuration could be measured: {'; '.join(ends[:3]) or otherwise}"
    factor, constraint, case = min(tried, key=lambda found: found[0])
    point = ", ".join(f"{axis}={value}" for axis, value in space.point_of(case).items())
    return (
        f"no configuration meets --{constraint}; nearest: {point}, {units.significant(factor, 3)} times the limit. "
        f"See torchstone show {run.head.run_id}"
    )
