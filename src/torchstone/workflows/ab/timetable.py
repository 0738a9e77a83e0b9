"""The time of a live comparison as it passes: what is left of it, and for how many turns of the next pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median, variance

import msgspec

from torchstone.execution.timing.clock import Clock
from torchstone.workflows.ab.interleaving import Go, Warm
from torchstone.workflows.ab.pair import Pair

FEWEST_PAIRS = 6
FEWEST_COUPLES, MOST_COUPLES = 4, 512  # of a pair: fewer only where there is no time for them
SHARE = 0.75  # of the whole time that should be measured turns
_MOST_SHARE = 0.92  # of a pair: the last tenth would cost many pairs
_EARLY = 0.3  # of the budget for the first six pairs, after which a large difference is known
_PAIRS = 10  # at least in all, where there is time for more than the fewest, and however short their turns come out
_BLUNTER = 1.15  # times the error of the best division: more than that, measured time is not worth
_CLOSING_S, _CLOSING = 0.3, 0.01  # the end of a comparison, and of a longer one
_MORE = 1.03  # times what was forecast


class Pace(msgspec.Struct, frozen=True):
    """What a pair costs: until both sides are warm, for each couple of turns, and until both have ended."""

    warm_s: float
    couple_s: float
    end_s: float = 0.0

    @property
    def start_s(self) -> float:
        """All but its turns."""
        return self.warm_s + self.end_s

    def pair_s(self, couples: int) -> float:
        """A pair of so many couples of turns."""
        return self.start_s + couples * self.couple_s

    def needed_s(self, pairs: int, couples: int) -> float:
        """So many pairs."""
        return pairs * self.pair_s(couples)


class PairSpread(msgspec.Struct, frozen=True):
    """Variances of a logarithm of a ratio: of a couple within its pair, and of what pairs differ by."""

    within: float
    between: float

    def best(self, pace: Pace) -> float:
        """Return the couples of a pair that make a comparison sharpest for its time.

        The root of the ratio of costs times the ratio of variances (Kalibera & Jones, Rigorous benchmarking in
        reasonable time, ISMM 2013, §5).
        """
        return math.sqrt(max(pace.start_s, 0.0) / pace.couple_s * self.within / self.between)

    def cost(self, couples: float, pace: Pace) -> float:
        """Return the variance after a given time, but for a factor that is the same for all numbers of couples."""
        return (self.between + self.within / couples) * (pace.start_s + couples * pace.couple_s)


def fitting(pace: Pace, left_s: float, pairs: int) -> int:
    """Return the couples that each of so many pairs has time for; less than 1: not even for one."""
    return math.floor((left_s / pairs - pace.start_s) / pace.couple_s + 1e-9)


def allotted(pace: Pace, left_s: float, wanted: int, pairs: int) -> int:
    """Return the couples of the next pair, where time is left for `pairs` of them at least, of about `wanted` couples.

    The time that is left is divided evenly, so that none is left over. Less than 1: there is no time for so many pairs.
    """
    affordable = int(left_s // pace.pair_s(max(1, wanted)))
    return min(MOST_COUPLES, whole(fitting(pace, left_s, max(1, pairs, affordable))))


def early(pace: Pace, budget_s: float, left_s: float, pairs: int) -> int:
    """Return the couples of the first pairs: so many that a large difference is known early, and no turn is wasted.

    Where the `pairs` that are left to the fewest would take most of the time even if they were short, there is only
    time for these: long ones.
    """
    if pace.needed_s(pairs, 2 * FEWEST_COUPLES) > 0.5 * left_s:
        return max(1, fitting(pace, left_s, pairs))
    return max(2 * FEWEST_COUPLES, min(MOST_COUPLES, fitting(pace, _EARLY * budget_s, FEWEST_PAIRS)))


def later(pace: Pace, spread: PairSpread | None, left_s: float, to_measure_s: float, taken: int) -> int:
    """Return the couples of pairs after the `taken`: the best number, or more of them where a pair is mostly its start.

    `to_measure_s`: of the time left, so much should be turns. More than the best number blunts the comparison, by 15 %
    at most here.
    """
    share = min(_MOST_SHARE, to_measure_s / left_s) if left_s > 0.0 else 0.0
    enough = share / (1.0 - share) * pace.start_s / pace.couple_s
    most = max(FEWEST_COUPLES, min(MOST_COUPLES, fitting(pace, left_s, max(1, _PAIRS - taken))))
    if spread is None:
        return min(most, max(2 * FEWEST_COUPLES, math.ceil(enough)))
    couples = best = max(float(FEWEST_COUPLES), spread.best(pace))
    limit = _BLUNTER**2 * spread.cost(best, pace)
    while couples < enough and spread.cost(couples * 1.05, pace) <= limit:
        couples *= 1.05
    return min(most, math.ceil(couples))


def templates_for(start_s: float, budget_s: float, most: int) -> int:
    """Return how many templates a comparison has: two, as far as that is no fifth of it, more within 8 %."""
    again = 0.08 * budget_s / max(start_s, 1e-3)
    least = 2 if start_s <= 0.2 * budget_s else 1
    return max(least, min(most, 1 + round(again)))


def closing_s(budget_s: float) -> float:
    """Return the time to keep for the end: to end processes, to write the record and to look at it."""
    return _CLOSING_S + _CLOSING * budget_s


def with_closing_s(pairs_s: float) -> float:
    """Return the budget that leaves so much time until its end, a little of which pairs may exceed."""
    return _MORE * (pairs_s + _CLOSING_S) / (1.0 - _CLOSING)


def whole(couples: int) -> int:
    """Return an even number of couples, so that each order is as frequent; of few ones, none is given up for that."""
    return couples if couples < 2 * FEWEST_COUPLES else couples - couples % 2


_FLOOR = 0.01  # of the variance within: so much pairs differ by, whatever few of them say


def spread_of(pairs: Sequence[Pair]) -> PairSpread | None:
    """Return the variances within and between pairs; None of fewer than three whose own error is known."""
    sound = [(len(pair.logs), found) for pair in pairs if (found := pair.location) is not None and found.error > 0.0]
    sound = [(couples, found) for couples, found in sound if couples >= 4]
    if len(sound) < 3:
        return None
    within = fmean(found.error**2 * couples for couples, found in sound)
    seen = variance([found.value for _, found in sound])
    return PairSpread(within, max(seen - fmean(found.error**2 for _, found in sound), _FLOOR * within))


def pace_of(pairs: Sequence[Pair]) -> Pace | None:
    """Return what a pair costs, by the last five that took turns: a machine may have become slower since the first."""
    recent = [pair for pair in pairs if pair.logs][-5:]
    if not recent:
        return None
    couple_s = median(pair.spans.turns_s / len(pair.logs) for pair in recent)
    warm_s, end_s = (median(getattr(pair.spans, name) for pair in recent) for name in ("warm_s", "end_s"))
    return Pace(warm_s, max(couple_s, 1e-6), end_s)


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
        known, taken = pace_of(pairs), _pairs_with_turns(pairs)
        if taken < FEWEST_PAIRS and not self.strict:
            return True
        if known is None:
            return self.left_s > 0.0
        worth_it = 1 if taken < FEWEST_PAIRS else max(1, self._couples // 2)
        return self.left_s >= known.pair_s(worth_it)

    def decide(self, pairs: Sequence[Pair], warm: Warm) -> Go:
        """Return the turns of the pair that is warm, after `pairs`."""
        found, pace = self._allotted(pairs, warm, warm.steps)
        steps = warm.steps
        if found < FEWEST_COUPLES and warm.least_steps < steps:
            steps = warm.least_steps
            found, pace = self._allotted(pairs, warm, steps)
        if found < FEWEST_COUPLES and _pairs_with_turns(pairs) < FEWEST_PAIRS and self.renewing_s:
            self.renewing_s = 0.0  # the fewest pairs come first
            found, pace = self._allotted(pairs, warm, steps)
        fewest, has_begun, fits = _pairs_with_turns(pairs) < FEWEST_PAIRS, warm.spent_s > warm.warm_s, found
        if found < 1:
            found = int((fewest and not self.strict) or has_begun or self.left_s >= pace.couple_s)
        if fits < FEWEST_COUPLES and fewest and (has_begun or not found):
            self._is_short(pairs, warm, pace, max(fits, 0), steps)
        if fewest and not self.strict:  # where starting takes much longer than turns, more of them cost next to nothing
            found = max(found, min(MOST_COUPLES, int(_CHEAP * warm.warm_s / pace.couple_s)))
        self._couples = max(1, found)
        keeps = self.strict or _pairs_with_turns(pairs) >= FEWEST_PAIRS
        return Go(found, steps, self._clock() + self.left_s - pace.end_s if keeps else None)

    def _allotted(self, pairs: Sequence[Pair], known: Warm, steps: int) -> tuple[int, Pace]:
        before = pace_of(pairs)
        usual_s = min(known.warm_s, before.warm_s) if before is not None else known.warm_s
        pace = Pace(usual_s, known.couple_s(steps), before.end_s if before is not None else _END_S)
        left_s = self.left_s + known.spent_s - (known.warm_s - usual_s)  # as if this pair began as the others will
        taken = _pairs_with_turns(pairs)
        if taken < FEWEST_PAIRS:
            return allotted(
                pace, left_s, early(pace, self.budget_s, left_s, FEWEST_PAIRS - taken), FEWEST_PAIRS - taken
            ), pace
        measured_s = sum(pair.spans.measured_s for pair in pairs)
        wanted = later(pace, spread_of(pairs), left_s, SHARE * self.budget_s - measured_s, taken)
        return allotted(pace, left_s, wanted, 1), pace

    def _is_short(self, pairs: Sequence[Pair], known: Warm, pace: Pace, fits: int, steps: int) -> None:
        """Note and say that the budget is short for the fewest pairs, and extend it where it may be."""
        to_come = FEWEST_PAIRS - _pairs_with_turns(pairs)

        def needed_s(couples: int) -> float:
            whole_s = with_closing_s(self.elapsed_s - known.spent_s + pace.needed_s(to_come, couples))
            return 5.0 * math.ceil(whole_s / 5.0)

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


def _pairs_with_turns(pairs: Sequence[Pair]) -> int:
    return sum(bool(pair.logs) for pair in pairs)
