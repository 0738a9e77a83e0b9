"""Takes the few short trials that tell causes apart: the whole step, its parts alone, a larger batch, and a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.advice.rules import Evidence
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.host_profile import HostProfile
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Event
from torchstone.core.schema.phase import DATA
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Head, Slot
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.execution.controller.active_run import ActiveRun
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.plugins import registry
from torchstone.plugins.protocols import Engine

_LARGER = 4  # times the batch: apart enough to tell a fixed cost from one that grows
_FED = 0.05  # of the step spent on waiting for data: from here on the loader is looked at on its own


class Listening(Silent):
    """A Watcher that keeps the last HostProfile, and passes everything on."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.heard_profile: HostProfile | None = None

    def begins(self, head: Head) -> None:
        """Pass it on."""
        self._watcher.begins(head)

    def starts(self, slot: Slot, order: int) -> None:
        """Pass it on."""
        self._watcher.starts(slot, order)

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Pass it on."""
        self._watcher.waits(programs)

    def finished(self, trial: Trial) -> None:
        """Pass it on."""
        self._watcher.finished(trial)

    def heard(self, event: Event) -> None:
        """Keep a profile."""
        if isinstance(event, HostProfile):
            self.heard_profile = event
        self._watcher.heard(event)

    def profile(self) -> HostProfile | None:
        """Return the profile of the trial that has just ended, once."""
        found, self.heard_profile = self.heard_profile, None
        return found


class EvidenceProbes:
    """Takes the trials of one diagnosis into its open run. `say` is told what is looked at."""

    def __init__(self, open_run: ActiveRun, listening: Listening, say: Callable[[str], None]) -> None:
        self._open_run, self._listening, self._say = open_run, listening, say
        self._numbers: dict[str, int] = {}

    def of(self, case: Case, machine: Machine, cores: int | None) -> Evidence | Trial:
        """Return the Evidence of a Case; the trial of the whole step, where that did not end well."""
        self._say("the whole step, and where the host's time goes")
        trial = self.take(case, phases=True, host_profile=True)
        if trial.outcome.status != Status.OK:
            return trial
        found = figures(trial).values
        evidence = Evidence(
            case, found, trial.facts, machine.device(case.placement.device, case.placement.index), cores,
            self._open_run.session.procedure.heap, look=self._listening.profile(), host_s=_host_s(trial),
            disturbance=trial.disturbance if trial.disturbed else None,
        )  # fmt: skip
        if case.configuration.get("feed") == "loader" and evidence.share(DATA) > _FED:
            evidence = self._fed(evidence)
        return self._enlarged(evidence)

    def _fed(self, e: Evidence) -> Evidence:
        """Measure the loader alone and the device alone."""
        self._say("the device alone, the loader alone")
        device = self.take(with_settings(e.case, {"feed": "resident"}))
        loading = self.take(loader_case(e.case), host_profile=not e.setting("num_workers"))
        look = self._listening.profile()
        alone = loading
        if e.setting("num_workers") and not e.fixes("num_workers"):
            alone = self.take(loader_case(e.case, num_workers=0), host_profile=True)
            look = self._listening.profile()
        return msgspec.structs.replace(
            e, device_rate=_rate(device), loader_rate=_rate(loading), loader_alone_rate=_rate(alone), loader_look=look
        )

    def _enlarged(self, e: Evidence) -> Evidence:
        """Measure a step of a larger batch right after one of the present, resident where a loader would hide both."""
        if e.fixes("batch_size"):
            return e
        size = _LARGER * e.batch_size
        self._say(f"a step of batch_size {size}")
        resident: dict[str, Scalar] = {"feed": "resident"} if e.device_rate else {}
        small, large = (
            _step_s(self.take(with_settings(e.case, {**resident, **settings})))
            for settings in ({}, {"batch_size": size})
        )
        return msgspec.structs.replace(e, larger=(size, large), small_s=small) if small and large else e

    def take(self, case: Case, *, phases: bool = False, host_profile: bool = False) -> Trial:
        """Take one short trial, recorded as a probe."""
        self._open_run.add(case)
        number = self._numbers[case.case_id] = self._numbers.get(case.case_id, -1) + 1
        how = short(self._open_run.session.procedure, phases=phases)
        return self._open_run.take(case, number, Purpose.PROBE, how, host_profile=host_profile)


def short(how: Procedure, *, phases: bool = False) -> Procedure:
    """Return the Procedure of a short trial: half of the window, and nothing beside it but what is asked for."""
    part = 1.0 if phases else 0.5
    return msgspec.structs.replace(
        how, budget_s=part * how.budget_s, warmup_budget_s=part * how.warmup_budget_s, phases=phases,
        count_flops=how.count_flops and phases, profile=False, iterations=None,
    )  # fmt: skip


def with_settings(case: Case, settings: Mapping[str, Scalar]) -> Case:
    """Return the Case with other values of its axes. Axes that it lacks are left out."""
    known = {axis: value for axis, value in settings.items() if axis in case.configuration}
    return msgspec.structs.replace(case, configuration={**case.configuration, **known})


def loader_case(case: Case, **settings: Scalar) -> Case:
    """Return the Case of the loader alone."""
    engine: Engine = registry.load("engines", str(Task.LOAD))
    configuration = {axis: value for axis, value in case.configuration.items() if axis in engine.axes}
    workload = msgspec.structs.replace(case.workload, task=Task.LOAD)
    return Case(workload, {**configuration, **settings}, case.placement)


def _rate(trial: Trial) -> float | None:
    if trial.outcome.status != Status.OK:
        return None
    return figures(trial).values.get("throughput")


def _step_s(trial: Trial) -> float | None:
    if trial.outcome.status != Status.OK:
        return None
    return figures(trial).values.get("step_time_mean")


def _host_s(trial: Trial) -> dict[str, float]:
    parts = [m for m in trial.measurements if m.metric == "host_time_s" and m.phase and m.values and m.rank == 0]
    return {str(m.phase): fmean(m.values) for m in parts}
