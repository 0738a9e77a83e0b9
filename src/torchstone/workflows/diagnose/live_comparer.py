"""Comparisons of what-ifs with the present settings, all from one session: a template serves probes and pairs alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison, Rules
from torchstone.core.schema.trial import Trial
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.workflows.ab.experiment import Experiment, in_turns
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import Pair, Variant, take_pair
from torchstone.workflows.diagnose.pairs import PairedTrials

MARGIN = 0.02


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
        return take_pair(placed, number, self._procedure, plan, dice, self._a.watcher, {"template": template})


class LiveComparer:
    """A Comparer (what_if.py) with the present Case: live (ab/), or trial by trial where processes load beside a side.

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
