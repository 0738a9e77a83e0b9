"""One tune: search, final round, result; each trial is recorded before the next starts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from torchstone.analysis.advice.choices import NEAR_THE_TOP, SAFE_SHARE
from torchstone.core import units
from torchstone.core.errors import TorchstoneError
from torchstone.core.figures import figures
from torchstone.core.schema.answer import Quest
from torchstone.core.schema.case import Case
from torchstone.core.schema.run import Head, Run
from torchstone.core.schema.search import Part, Point, Probe
from torchstone.execution.controller.active_run import OpenRun, OutOfTime, conclude
from torchstone.workflows.tune.answering import answer_of
from torchstone.workflows.tune.final_round import fight, ranked
from torchstone.workflows.tune.scoring import shortfall
from torchstone.workflows.tune.searching import Probes, allowed, search
from torchstone.workflows.tune.space import Space
from torchstone.workflows.tune.watching import TuneWatcher

_FINALISTS = 3


def take(open_run: OpenRun, so_far: Run, watcher: TuneWatcher) -> Run:
    """Carry a tune out in its open run, end the run and return it.

    Trials in `so_far` are reused: the search runs again, answered from the record as far as that goes.
    """
    head, quest = open_run.head, open_run.head.quest
    if quest is None:
        raise TorchstoneError(f"run {head.run_id} is not a tune")
    space, seed = Space(quest), open_run.session.procedure.seed
    watcher.quest(quest, len(space.points))
    probes = Probes(space, open_run, open_run.session.procedure, watcher, so_far.trials)

    def work() -> None:
        found = search(space.brief(_capacity_bytes(head, quest), seed), quest.searcher, probes)
        cases = _finalists(space, found, probes)
        watcher.stage(f"final round of {len(cases)}, {quest.duel_trials} trials each")
        duel = fight(cases, quest, open_run, seed, so_far.trials)
        if ranking := ranked(duel, quest):
            watcher.stage("verification of the best")
            with contextlib.suppress(OutOfTime):  # the answer is known; what explains it is a bonus
                _explain(space, probes, next(case for case in cases if case.case_id == ranking[0]))
            open_run.answer(answer_of(open_run.so_far(), space, duel, ranking, probes.readings))

    return conclude(open_run, work)


def _finalists(space: Space, found: Sequence[Point], probes: Probes) -> list[Case]:
    """Return the Cases of the final round: the search's best, the leanest of the fast, the present settings."""
    points = list(found[:_FINALISTS])
    good = [r for r in allowed(probes.readings) if r.value is not None]
    top = max((r.value or 0.0 for r in good), default=0.0)
    near = [r for r in good if (r.value or 0.0) >= NEAR_THE_TOP * top and r.peak_bytes]
    if near and space.quest.objective in ("throughput", "efficiency"):
        points.append(max(near, key=lambda r: (r.value or 0.0) / (r.peak_bytes or 1.0)).probe.point)
    if space.quest.present is not None:
        points.append(space.quest.present)
    cases = {case.case_id: case for case in map(space.case, points)}
    return list(cases.values())


def _explain(space: Space, probes: Probes, best: Case) -> None:
    """Measure the throughput of the loader alone and of the device alone at the recommended settings."""
    if not space.brief(None, 0).separable:
        return
    point = space.point_of(best)
    asked = {(r.probe.part, space.case(r.probe.point, r.probe.part).case_id) for r in probes.readings}
    for part, why in ((Part.LOADER, "as recommended"), (Part.DEVICE, "as recommended")):
        if (part, space.case(point, part).case_id) not in asked:
            probes.take(Probe(point, part, 0.5, why))


def _capacity_bytes(head: Head, quest: Quest) -> float | None:
    """Return what peak memory must stay below: as asked, or a tenth less than there is."""
    if quest.constraints.max_memory_bytes is not None:
        return quest.constraints.max_memory_bytes
    device = head.machine.device(quest.base.placement.device, quest.base.placement.index)
    return SAFE_SHARE * device.memory_bytes if device is not None and device.memory_bytes else None


def no_answer(run: Run) -> str | None:
    """Return why a tune that was not cut off has no answer: what came nearest to the limits, or how trials ended."""
    if run.answer is not None or run.head.quest is None or run.end is None or run.end.status != "done":
        return None
    space = Space(run.head.quest)
    tried: list[tuple[float, str, Case]] = []
    cases = {case.case_id: case for case in run.head.plan.cases}
    for trial in run.trials:
        case = cases[trial.case_id]
        if case.workload.task == space.quest.base.workload.task and trial.outcome.status == "ok":
            missed = shortfall(figures(trial).values, space.quest)
            if missed is not None:
                tried.append((missed[1], missed[0], case))
    if not tried:
        ends = sorted({f"{t.outcome.status}: {t.outcome.message}" for t in run.trials if t.outcome.status != "ok"})
        return f"no configuration could be measured: {'; '.join(ends[:3]) or 'no trial was started'}"
    factor, constraint, case = min(tried, key=lambda found: found[0])
    point = ", ".join(f"{axis}={value}" for axis, value in space.point_of(case).items())
    return (
        f"no configuration meets --{constraint}; nearest: {point}, {units.significant(factor, 3)} times the limit. "
        f"See torchstone show {run.head.run_id}"
    )
