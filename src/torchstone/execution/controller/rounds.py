"""The number of trials of a run without --trials: rounds until the intervals are narrow enough or time is over.

Many short trials instead of a few long ones: trials of the same code differ by more than the steps of one do. In each
round every case that is not known well enough yet is measured once, in seeded random order. A case is known well
enough when the 95 % interval of its throughput is within ±`aim` after 8 trials or more; looking after each round costs
the interval less than 2 points of its coverage then (Chow & Robbins, Annals of Mathematical Statistics 36(2), 1965, for
the rule; tests/statistics/test_rounds.py for the figure).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from statistics import fmean

import msgspec

from torchstone.core.estimates import interval_of, priors_of
from torchstone.core.figures import Figures, figures
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import Condition
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import (
    Purpose,
    Status,
    Trial,
    ended_well,
    estimation_trials,
    is_of_busy_machine,
    undisturbed,
)
from torchstone.execution.controller.session import least_window_s, usual_step_s, window_s
from torchstone.execution.plan import condition_rank

FEWEST = 8  # trials of a case before its interval may say that they are enough
LEAST_ROUNDS = 3  # of a run whose time was not given, but where other programs leave no trial alone
MOST_ROUNDS = 100
_SLOW_S, _SLOW_STEPS = 0.5, 2  # from here on a step is slow, and a window has so many
_COUNTED, _DISSECTED = 1, 2  # trials of a case in which operations are counted, and in which a step is cut into phases
_FAILURES = 2  # a case that failed so often, and never ended well, is not tried again
_MORE_TIME = 1.5  # times the usual time, where other programs disturbed trials
_BUSY_TIME = 0.5  # times the usual time, where they leave the machine for less than a quarter of the trials
_LEAST_QUIET, _LAST = 0.25, 3
_FIRST_S, _CASE_S, _MOST_S = 30.0, 25.0, 900.0  # the time of a run that was given none
_WARM_UP_S, _MIN_STEPS, _PERCENTILES_S, _PERCENTILES_FIRST_S = 0.5, 3, 0.5, 5.0

_PACE = "throughput"

NARROW, OVER, MOST, FAILED = "narrow", "over", "most", "failed"  # why no more trials are taken


class Next(msgspec.Struct, frozen=True):
    """The places of the cases to measure in the next round, in order; none, and why the run is over."""

    cases: tuple[int, ...]
    why: str | None = None


def time_of(procedure: Procedure, cases: int) -> float:
    """Return the time of a whole run in seconds: as given, or half a minute and 25 s a case, a quarter of an hour."""
    return procedure.within_s or min(_MOST_S, _FIRST_S + _CASE_S * cases)


class Rounds:
    """What is known of the cases of a run, from trial to trial.

    `so_far`: the trials that are there already. `first`: conditions of cases that come first in every round.
    """

    def __init__(self, procedure: Procedure, so_far: Run, first: Sequence[Condition] = ()) -> None:
        usual = so_far.head.usual
        self._procedure, self._usual = procedure, usual.deviation if usual is not None else None
        self._cases = so_far.head.plan.cases
        self._ranks = [condition_rank(case.configuration, first) for case in self._cases]
        self._measurable = so_far.head.measurable
        self._time_s = time_of(procedure, len(self._measurable))
        self._places = {case.case_id: place for place, case in enumerate(self._cases)}
        self._taken: list[list[Trial]] = [[] for _ in self._cases]
        self._figures: list[list[Figures]] = [[] for _ in self._cases]  # of the trials that ended well, in their order
        self._disturbed: list[bool] = []  # of the same trials, of all cases
        self.number = 0  # of the round at hand
        for trial in so_far.trials:
            if trial.case_id in self._places:
                self.note(trial)

    def note(self, trial: Trial) -> None:
        """Take in a trial that has ended."""
        if trial.purpose != Purpose.REPLICATE or trial.outcome.status == Status.INTERRUPTED:
            return
        place = self._places[trial.case_id]
        self._taken[place].append(trial)
        self.number = max(self.number, trial.number)
        if trial.outcome.status == Status.OK:
            self._figures[place].append(figures(trial))
            self._disturbed.append(trial.disturbed)

    def procedure_for(self, place: int, number: int) -> Procedure:
        """Return how the next trial of a case is taken: short windows, and what is counted only in the first few."""
        how = self._procedure
        good = estimation_trials(ended_well(self._taken[place]))
        if good and how.warmup is None and usual_step_s(good) > _SLOW_S:
            # A trial of slow steps is mostly what comes before its windows: one step of warm-up after the first.
            how = msgspec.structs.replace(how, warmup=1, warmup_budget_s=0.0, min_steps=_SLOW_STEPS)
        budget_s = max(window_s(good, how.budget_s), min(least_window_s(self._cases[place]), how.budget_s))
        return msgspec.structs.replace(
            how,
            budget_s=budget_s,
            target=None,
            min_steps=min(_MIN_STEPS, how.min_steps),
            warmup_budget_s=min(_WARM_UP_S, how.warmup_budget_s),
            percentiles_s=_PERCENTILES_S if number else min(_PERCENTILES_FIRST_S, how.budget_s),
            phases=how.phases and len(good) < _DISSECTED,
            count_flops=how.count_flops and len(good) < _COUNTED,
        )

    def next(self, elapsed_s: float) -> Next:
        """Return what to measure next, `elapsed_s` after the run began."""
        tried = [place for place in self._measurable if not self._given_up(place)]
        if not tried:
            return Next((), FAILED)
        if self.number + 1 >= MOST_ROUNDS:
            return Next((), MOST)
        halves = self._half_widths()
        wanted = [place for place in tried if not self._is_narrow(place, halves[place])]
        if not wanted:
            return Next((), NARROW)
        extension = self._extension()
        fitting = self._fitting(wanted, halves, self._time_s * extension - elapsed_s)
        if self._is_needed(self.number + 1, extension):
            fitting = wanted
        if not fitting:
            return Next((), OVER)
        self.number += 1
        order = sorted(fitting)
        random.Random(f"{self._procedure.seed} {self.number}").shuffle(order)
        order.sort(key=self._ranks.__getitem__)
        return Next(tuple(order))

    def is_over(self, elapsed_s: float) -> bool:
        """Say whether the round at hand is to be ended: a machine that became busy makes it longer than foreseen."""
        extension = self._extension()
        return elapsed_s > self._time_s * extension and not self._is_needed(self.number, extension)

    def _is_needed(self, number: int, extension: float) -> bool:
        return self._procedure.within_s is None and number < LEAST_ROUNDS and extension != _BUSY_TIME

    def _extension(self) -> float:
        """Return how many times its usual time a run that was given none may take.

        Longer where trials are replaced; shorter where the machine is so busy that waiting for its answer is in vain.
        """
        if self._procedure.within_s is not None or not any(self._disturbed):
            return 1.0
        few = self._disturbed.count(False) < _LEAST_QUIET * len(self._disturbed)
        last = self._disturbed[-_LAST:]
        return _BUSY_TIME if few and len(last) == _LAST and all(last) else _MORE_TIME

    def _is_narrow(self, place: int, half: float | None) -> bool:
        good = ended_well(self._taken[place])
        enough = len(estimation_trials(good)) >= FEWEST and not is_of_busy_machine(good)
        return enough and half is not None and half <= self._procedure.aim

    def _given_up(self, place: int) -> bool:
        return not ended_well(self._taken[place]) and len(self._taken[place]) >= _FAILURES

    def _half_widths(self) -> list[float | None]:
        """Return the relative half-width of each case's interval of the throughput; None where there is none yet."""
        kept = [undisturbed([trial.disturbed for trial in ended_well(of_case)]) for of_case in self._taken]
        used = [itertools.compress(*both) for both in zip(self._figures, kept, strict=True)]
        own = [
            [Figures({k: v for k, v in f.values.items() if k == _PACE}, f.samples) for f in of_case] for of_case in used
        ]
        priors = priors_of(own, self._usual)
        found: list[float | None] = []
        for of_case, prior in zip(own, priors, strict=True):
            values = [f.values[_PACE] for f in of_case if _PACE in f.values]
            if len(values) < 2:
                found.append(None)
                continue
            value, low, high, _ = interval_of(_PACE, values, prior=prior.get(_PACE))
            found.append(max(high / value - 1.0, 1.0 - low / value) if low is not None and high is not None else None)
        return found

    def _fitting(self, wanted: Sequence[int], halves: Sequence[float | None], left_s: float) -> list[int]:
        """Return which of the cases fit into the time that is left: all of them, or those that are known worst."""
        worst_first = sorted(wanted, key=lambda place: -(h if (h := halves[place]) is not None else math.inf))
        found = []
        for place in worst_first:
            if (cost_s := self._cost_s(place)) <= left_s:
                found.append(place)
                left_s -= cost_s
        return found

    def _cost_s(self, place: int) -> float:
        """Return what one more trial of a case takes: as long as the last few did, the first apart (it did more)."""
        taken = self._taken[place]
        return fmean(trial.duration_s for trial in taken[1:][-4:] or taken) if taken else 0.0
