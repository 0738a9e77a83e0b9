"""Comparisons of what-ifs with the present settings, all from one session: a template serves probes and pairs alike.

Live (ab/); or, for settings with processes that load, in pairs of short trials instead. A live comparison stops the
processes of a loader while it is the other side's turn (execution/worker/turns.py), but no campaign has shown its rates
with loaders yet. So these take turns trial by trial, each alone on the machine. The pair is the replicate, the number
of pairs is decided before their values are looked at, and templates are renewed on the way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import fmean

import msgspec

from torchstone.analysis.advice.rules import Evidence
from torchstone.core.figures import figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.comparison import Comparison, Judgement, Rules, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Event
from torchstone.core.schema.metric import DATA
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Head, Slot
from torchstone.core.schema.trial import HostProfile, Purpose, Status, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.execution.controller.active_run import ActiveRun
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.plugins import registry
from torchstone.plugins.protocols import Engine
from torchstone.workflows.ab.experiment import Experiment, in_turns
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import Pair, Variant, take_pair

_LARGER = 4  # times the batch: apart enough to tell a fixed cost from one that grows
_FED = 0.05  # of the step spent on waiting for data: from here on the loader is looked at on its own


class ProbeWatcher(Silent):
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

    def __init__(self, open_run: ActiveRun, listening: ProbeWatcher, say: Callable[[str], None]) -> None:
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
            case,
            found,
            trial.facts,
            machine.device(case.placement.device, case.placement.index),
            cores,
            self._open_run.session.procedure.heap,
            look=self._listening.profile(),
            host_s=_host_s(trial),
            disturbance=trial.disturbance if trial.disturbed else None,
        )
        if case.configuration.get("feed") == "loader" and evidence.share(DATA) > _FED:
            evidence = self._fed(evidence)
        if evidence.disturbance is not None and evidence.disturbance.hides_causes:
            return evidence  # where nothing can be diagnosed, steps of a larger batch are too dear for a first look
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
        how,
        budget_s=part * how.budget_s,
        warmup_budget_s=part * how.warmup_budget_s,
        phases=phases,
        count_flops=how.count_flops and phases,
        profile=False,
        iterations=None,
    )


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


MARGIN = 0.02
FEWEST, MOST = 4, 8  # pairs of short trials
_LEVEL = 0.99  # of theirs, as an experiment's bound on false alarms


class Sessions:
    """An PairRunner (workflows/ab/experiment.py) of open sessions: of side A, and of side B where its heap differs."""

    def __init__(self, a: Session, b: Session) -> None:
        self._a, self._b = a, b
        self._procedure = in_turns(a.procedure)
        self._fresh = False
        self.start_s = 0.0

    def renew(self) -> None:
        """Start new templates, unless those there are have forked no pair yet."""
        if self._fresh:
            return
        began_s = system_clock()
        for session in dict.fromkeys((self._a, self._b)):
            session.renew()
        self.start_s = system_clock() - began_s
        self._fresh = True

    def take(self, sides: Sequence[Variant], number: int, plan: TurnPlan, dice: random.Random, template: int) -> Pair:
        """Take one pair."""
        self._fresh = False
        placed = [(side, session.launcher) for side, session in zip(sides, (self._a, self._b), strict=True)]
        return take_pair(placed, number, self._procedure, plan, dice, self._a.watcher, Facts(template=template))


class LiveComparer:
    """A Comparer (remedies.py) with the present Case: live (ab/), or trial by trial where processes load beside a side.

    `probe` takes one short trial; `keep` is given every trial of a live one with its Case as soon as it is taken.
    `apart`: the device's memory does not hold two processes at once, so that settings are compared trial by trial.
    """

    def __init__(
        self,
        present: Case,
        session: Session,
        probe: Callable[[Case], Trial],
        keep: Callable[[Case, Trial], None],
        *,
        apart: bool = False,
    ) -> None:
        self._present, self._session, self._keep, self._apart = present, session, keep, apart
        self._seed = session.procedure.seed
        self._paired = PairedTrials(present, probe, session.renew, MARGIN, self._seed)

    def __call__(self, case: Case, heap: str | None, budget_s: float) -> tuple[Comparison, Sequence[Trial]]:
        """Compare it with the present Case, live, within about `budget_s`."""
        if heap is None and (self._apart or any(_has_loader_processes(one) for one in (self._present, case))):
            return self._paired(case, heap, budget_s)
        began_s = system_clock()
        cases = {one.case_id: one for one in (self._present, case)}
        a, b = Variant("present", self._present), Variant("candidate", case)
        self._seed += 1
        rules = Rules(margin=MARGIN, budget_s=budget_s, seed=self._seed)
        with ExitStack() as stack:
            other = self._session
            if heap is not None and heap != other.procedure.heap:
                how = msgspec.structs.replace(other.procedure, heap=heap)
                other = stack.enter_context(Session(how, [case.workload.model], self._session.watcher))
            sessions = Sessions(self._session, other)
            experiment = Experiment(
                a, b, rules, sessions, began_s, keep=lambda trial: self._keep(cases[trial.case_id], trial)
            )
            ended = experiment.run()
        return ended.comparison, ended.trials


def _has_loader_processes(case: Case) -> bool:
    """Say whether processes of a loader work beside the steps of a Case."""
    return case.configuration.get("feed") == "loader" and bool(case.configuration.get("num_workers"))


# ── pairs of short trials ───────────────────────────────────────────────────────────────────────────────────


class PairedTrials:
    """A Comparer (remedies.py) of pairs. `probe` takes one short trial of a Case; `renew` starts a new template."""

    def __init__(
        self,
        present: Case,
        probe: Callable[[Case], Trial],
        renew: Callable[[], None],
        margin: float,
        seed: int = 0,
        clock: Clock = system_clock,
    ) -> None:
        self._present, self._probe, self._renew, self._margin = present, probe, renew, margin
        self._dice, self._clock = random.Random(seed), clock

    def __call__(self, case: Case, _heap: str | None, budget_s: float) -> tuple[Comparison, Sequence[Trial]]:
        """Take pairs within about `budget_s`, four at least."""
        began_s = self._clock()
        trials = [*self._pair(case, 0)]
        wanted = FEWEST
        if all(trial.outcome.status == Status.OK for trial in trials):
            cost_s = max(self._clock() - began_s, 1e-3)
            wanted = max(FEWEST, min(MOST, int(budget_s / cost_s)))
            for number in range(1, wanted):
                if number == wanted // 2:
                    self._renew()
                trials += self._pair(case, number)
        return self._compared(case, trials), trials

    def _pair(self, case: Case, number: int) -> list[Trial]:
        """Return the trials of both sides, in the order A, B; taken in random order."""
        sides = {"A": self._present, "B": case}
        order = list(sides)
        self._dice.shuffle(order)
        taken = {side: self._probe(sides[side]) for side in order}
        return [
            msgspec.structs.replace(taken[side], facts=merged(taken[side].facts, Facts(side=side, pair=number)))
            for side in sides
        ]

    def _compared(self, case: Case, trials: Sequence[Trial]) -> Comparison:
        sides = [Side("present", "", self._present.case_id), Side("candidate", "", case.case_id)]
        bad = next((trial.outcome for trial in trials if trial.outcome.status != Status.OK), None)
        ratios = [] if bad is not None else [_ratio(a, b) for a, b in zip(trials[::2], trials[1::2], strict=True)]
        if bad is not None or len(ratios) < FEWEST:
            why = Statement("few_probes")
            if bad is not None:
                why = Statement("probe_failed", {"status": str(bad.status), "message": bad.message})
            return Comparison(
                sides[0], sides[1], "step_time_mean", None, Judgement.NOT_COMPARABLE, self._margin, why=why
            )
        value, low, high, _ = over_trials(ratios, _LEVEL)
        ends = (low if low is not None else value, high if high is not None else value)
        method = "t-interval on log ratios of pairs of short trials"
        ratio = Estimate(value, *ends, _LEVEL, "ratio", method, len(ratios), len(ratios))
        verdict = judge(*ends, self._margin, higher_is_better=False)
        return Comparison(sides[0], sides[1], "step_time_mean", ratio, verdict, self._margin)


def _ratio(a: Trial, b: Trial) -> float:
    """Return the time of an item of B ÷ A."""
    rates = [figures(trial).values["throughput"] for trial in (a, b)]
    return rates[0] / rates[1]
