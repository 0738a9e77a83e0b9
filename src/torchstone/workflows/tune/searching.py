"""Drives a searcher: each of its probes becomes a trial in the open run, and its reading is sent back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.search import Part, Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.execution.controller.active_run import ActiveRun
from torchstone.execution.controller.allocation import for_objective
from torchstone.plugins import registry
from torchstone.plugins.protocols import Searcher
from torchstone.workflows.tune.scoring import reading_of
from torchstone.workflows.tune.space import Space
from torchstone.workflows.tune.watching import TuneWatcher


class Probes:
    """Takes probes into an open run. `recorded`: those of a run that goes on; they are reused, not taken again."""

    def __init__(
        self,
        space: Space,
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
        reading = reading_of(trial, probe, self._space.spec)
        self.readings.append(reading)
        self._watcher.learned(reading)
        return reading

    def _how(self, probe: Probe) -> Procedure:
        """Return the Procedure of a probe: its window as long as the effort says, and nothing beside the window."""
        how, spec = self._procedure, self._space.spec
        how = msgspec.structs.replace(
            how, budget_s=how.budget_s * probe.effort, warmup_budget_s=how.warmup_budget_s * probe.effort,
            count_flops=False, phases=False, profile=False,
        )  # fmt: skip
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
