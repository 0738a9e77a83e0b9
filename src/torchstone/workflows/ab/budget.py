"""How the time of a live comparison is divided into pairs and couples of turns, by what steps take. Pure functions."""

from __future__ import annotations

import math

import msgspec

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


class Spread(msgspec.Struct, frozen=True):
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


def later(pace: Pace, spread: Spread | None, left_s: float, to_measure_s: float, taken: int) -> int:
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


def templates_for(start_s: float, budget_s: float, most: int, share: float = 0.08) -> int:
    """Return how many templates a comparison has: two, as far as that is no fifth of it, more within `share` of it."""
    again = share * budget_s / max(start_s, 1e-3)
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
