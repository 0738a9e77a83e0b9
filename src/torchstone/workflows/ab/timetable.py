"""The time of a live comparison as it passes: what is left of it, and for how many turns of the next pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchstone.execution.timing.clock import Clock
from torchstone.workflows.ab.allocation import pace_of, spread_of
from torchstone.workflows.ab.budget import (
    FEWEST_COUPLES,
    FEWEST_PAIRS,
    MOST_COUPLES,
    SHARE,
    Pace,
    allotted,
    closing_s,
    early,
    later,
    with_closing_s,
)
from torchstone.workflows.ab.interleaving import Go, Warm
from torchstone.workflows.ab.pair import Pair

_CHEAP = 0.1  # of what a pair takes to start
_END_S = 0.15  # of a pair, before any has ended


class Timetable:
    """Divides a budget that began to run at `began_s`.

    `strict`: it is kept, whatever has been measured by then. Else it is exceeded where it is too short for the fewest
    pairs of one couple of turns each. `say` is told in one line where either happens, as soon as steps are known.
    """

    def __init__(
        self,
        budget_s: float,
        began_s: float,
        clock: Clock,
        *,
        strict: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.budget_s, self.strict = budget_s, strict
        self.reserved_s = self.renewing_s = 0.0  # of what is left: for other pairs, and for further templates
        self.needed_s: float | None = None  # by the fewest pairs, where the budget is too short for them
        self._began_s, self._clock, self._say = began_s, clock, say
        self._said = False
        self._couples = FEWEST_COUPLES  # of the last pair

    @property
    def elapsed_s(self) -> float:
        """Since the budget began to run."""
        return self._clock() - self._began_s

    @property
    def progress(self) -> float:
        """The share of the budget that is spent."""
        return self.elapsed_s / self.budget_s

    @property
    def left_s(self) -> float:
        """Until the last turn must have been taken, without what is kept for something else."""
        return self.budget_s - closing_s(self.budget_s) - self.reserved_s - self.renewing_s - self.elapsed_s

    @property
    def ready_by_s(self) -> float | None:
        """The moment of the clock at which nobody waits any more for sides to warm up."""
        return self._began_s + 1.05 * self.budget_s if self.strict else None

    def has_room(self, pairs: Sequence[Pair]) -> bool:
        """Say whether another pair may begin."""
        known, taken = pace_of(pairs), _taken(pairs)
        if taken < FEWEST_PAIRS and not self.strict:
            return True
        if known is None:
            return self.left_s > 0.0
        worth_it = 1 if taken < FEWEST_PAIRS else max(1, self._couples // 2)
        return self.left_s >= known.pair_s(worth_it)

    def decide(self, pairs: Sequence[Pair], known: Warm) -> Go:
        """Return the turns of the pair that is warm, after `pairs`."""
        found, pace = self._allotted(pairs, known, known.steps)
        steps = known.steps
        if found < FEWEST_COUPLES and known.least_steps < steps:
            steps = known.least_steps
            found, pace = self._allotted(pairs, known, steps)
        if found < FEWEST_COUPLES and _taken(pairs) < FEWEST_PAIRS and self.renewing_s:
            self.renewing_s = 0.0  # the fewest pairs come first
            found, pace = self._allotted(pairs, known, steps)
        fewest, has_begun, fits = _taken(pairs) < FEWEST_PAIRS, known.spent_s > known.warm_s, found
        if found < 1:
            found = int((fewest and not self.strict) or has_begun or self.left_s >= pace.couple_s)
        if fits < FEWEST_COUPLES and fewest and (has_begun or not found):
            self._is_short(pairs, known, pace, max(fits, 0), steps)
        if fewest and not self.strict:  # where starting takes much longer than turns, more of them cost next to nothing
            found = max(found, min(MOST_COUPLES, int(_CHEAP * known.warm_s / pace.couple_s)))
        self._couples = max(1, found)
        keeps = self.strict or _taken(pairs) >= FEWEST_PAIRS
        return Go(found, steps, self._clock() + self.left_s - pace.end_s if keeps else None)

    def _allotted(self, pairs: Sequence[Pair], known: Warm, steps: int) -> tuple[int, Pace]:
        before = pace_of(pairs)
        usual_s = min(known.warm_s, before.warm_s) if before is not None else known.warm_s
        pace = Pace(usual_s, known.couple_s(steps), before.end_s if before is not None else _END_S)
        left_s = self.left_s + known.spent_s - (known.warm_s - usual_s)  # as if this pair began as the others will
        taken = _taken(pairs)
        if taken < FEWEST_PAIRS:
            return allotted(
                pace, left_s, early(pace, self.budget_s, left_s, FEWEST_PAIRS - taken), FEWEST_PAIRS - taken
            ), pace
        measured_s = sum(pair.spans.measured_s for pair in pairs)
        wanted = later(pace, spread_of(pairs), left_s, SHARE * self.budget_s - measured_s, taken)
        return allotted(pace, left_s, wanted, 1), pace

    def _is_short(self, pairs: Sequence[Pair], known: Warm, pace: Pace, fits: int, steps: int) -> None:
        """Note and say that the budget is short for the fewest pairs, and extend it where it may be."""
        to_come = FEWEST_PAIRS - _taken(pairs)

        def needed_s(couples: int) -> float:
            return _rounded(with_closing_s(self.elapsed_s - known.spent_s + pace.needed_s(to_come, couples)))

        step = (
            f"a step takes {known.step_s / 2.0:.2g} s, a pair of processes {pace.start_s:.2g} s before its first turn"
        )
        given = f"{self.budget_s:g} s"
        turns = "one turn" if steps == 1 else f"one turn of {steps} steps"
        if fits >= 1:
            told = f"{step}: within {given} a pair has {fits} turn{'s' * (fits > 1)} per side; "
            told += f"{FEWEST_COUPLES} would take --within {needed_s(FEWEST_COUPLES):.0f}s"
        elif self.strict:
            self.needed_s = needed_s(1)
            told = f"{step}: {FEWEST_PAIRS} pairs of {turns} a side need --within {self.needed_s:.0f}s; "
            told += f"with {given} the result may stay unclear"
        else:
            self.needed_s = needed_s(1)
            told = f"{step}: {FEWEST_PAIRS} pairs of {turns} a side take about {self.needed_s:.0f} s, more than {given}"
            self.budget_s = max(self.budget_s, self.needed_s)
        if not self._said:
            self._said = True
            self._say(told)


def _taken(pairs: Sequence[Pair]) -> int:
    return sum(bool(pair.logs) for pair in pairs)


def _rounded(seconds: float) -> float:
    return 5.0 * math.ceil(seconds / 5.0)
