"""Comparisons of what-ifs with the present settings, all from one session: a template serves probes and pairs alike.

Live (ab/); or, for settings with processes that load, in pairs of short trials instead. A live comparison stops the
processes of a loader while it is the other side's turn (execution/worker/turns.py), but no campaign has shown its rates
with loaders yet. So these take turns trial by trial, each alone on the machine. The pair is the replicate, the number
of pairs is decided before their values are looked at, and templates are renewed on the way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec

from torchstone.core.figures import figures
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison, Judgement, Rules, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.workflows.ab.experiment import Experiment, in_turns
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import Pair, Variant, take_pair

MARGIN = 0.02
FEWEST, MOST = 4, 8  # pairs of short trials
_LEVEL = 0.99  # of theirs, as an experiment's bound on false alarms


class Sessions:
    """An PairRunner (workflows/ab/experiment.py) of open sessions: of side A, and of side B where its heap differs."""

    def __init__(self, a: Session, b: Session, clock: Clock = system_clock) -> None:
        self._a, self._b, self._clock = a, b, clock
        self._procedure = in_turns(a.procedure)
        self._fresh = False
        self.start_s = 0.0

    def renew(self) -> None:
        """Start new templates, unless those there are have forked no pair yet."""
        if self._fresh:
            return
        began_s = self._clock()
        for session in dict.fromkeys((self._a, self._b)):
            session.renew()
        self.start_s = self._clock() - began_s
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
        if heap is None and (self._apart or any(_loads_beside(one) for one in (self._present, case))):
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


def _loads_beside(case: Case) -> bool:
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
