"""Pairs of short trials, instead of an experiment (ab/), for settings with processes that load.

A live comparison stops the processes of a loader while it is the other side's turn (execution/worker/turns.py), but no
campaign has shown its rates with loaders yet. So these take turns trial by trial, each alone on the machine. The pair
is the replicate, the number of pairs is decided before their values are looked at, and templates are renewed on the
way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from torchstone.core.figures import figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison, Judgement, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.execution.timing.clock import Clock, system_clock

FEWEST, MOST = 4, 8
_LEVEL = 0.99  # as an experiment's bound on false alarms


class PairedTrials:
    """A Comparer (what_if.py) of pairs. `probe` takes one short trial of a Case; `renew` starts a new template."""

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
            msgspec.structs.replace(taken[side], facts={**taken[side].facts, "side": side, "pair": number})
            for side in sides
        ]

    def _compared(self, case: Case, trials: Sequence[Trial]) -> Comparison:
        sides = [Side("present", "", self._present.case_id), Side("candidate", "", case.case_id)]
        bad = next((trial.outcome for trial in trials if trial.outcome.status != Status.OK), None)
        ratios = [] if bad is not None else [_ratio(a, b) for a, b in zip(trials[::2], trials[1::2], strict=True)]
        if bad is not None or len(ratios) < FEWEST:
            why = f"{bad.status}: {bad.message}" if bad is not None else "too few pairs"
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
