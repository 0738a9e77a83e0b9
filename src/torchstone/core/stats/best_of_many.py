"""Selection of the best of many, corrected for the winner's curse.

Multiple comparisons with the best (Hsu, Annals of Statistics 9(5), 1981; Hsu, Multiple Comparisons, 1996, §4), with
Bonferroni's inequality and Welch's intervals in the place of equal variances. With a probability of at least 1 - alpha,
whatever was chosen after looking: the truly best one is among those that could be it (the subset of Gupta,
Technometrics 7(2), 1965), and where that is one alone, the intervals of its leads hold. Each one's spread is drawn
towards that of all, since three trials tell their own badly (Smyth, Statistical Applications in Genetics and Molecular
Biology 3(1), 2004). Simulated in tests/statistics/test_best_of_many.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from torchstone.core.stats.moderated import spread_of
from torchstone.core.stats.student import from_log, tail, two_sided

ALPHA = 0.05
_WORTH = 4.0  # most degrees of freedom that the spread of all others is worth beside one's own
_ASSUMED = 0.1  # of the log of a trial, where none has two: trials of the same code differ so


class Entrant(NamedTuple):
    """One that may be the best: the mean of its logs (higher is better), its squared standard error, and the df."""

    log: float
    squared_error: float
    df: float


class Best(NamedTuple):
    """`best`: the highest (its place); `could_be`: all places that may be the best, the highest first.

    `lead`: best ÷ the highest of the others with the ends of its interval; None of one alone. `level` of that.
    """

    best: int
    could_be: tuple[int, ...]
    lead: tuple[float, float, float] | None
    level: float

    @property
    def is_clear(self) -> bool:
        """Whether it is known which one is the best."""
        return len(self.could_be) == 1


def pair_level(many: int, alpha: float = ALPHA) -> float:
    """Return the level at which each two of `many` are compared so that no equal ones are called different.

    With a probability of at least 1 - alpha, whichever two are looked at (Bonferroni).
    """
    return 1.0 - alpha / max(1, many * (many - 1) // 2)


def best_of(entrants: Sequence[Entrant], alpha: float = ALPHA, tried: int = 0) -> Best:
    """Return the best and what is not significantly different from it.

    tried: how many there were, where some that could not win are not among the entrants any more.
    Raises ValueError without an entrant, or for alpha outside (0, 1).
    """
    if not entrants or not 0.0 < alpha < 1.0:
        raise ValueError(f"no best of {len(entrants)} at {alpha!r}")
    order = sorted(range(len(entrants)), key=lambda place: -entrants[place].log)
    level = 1.0 - alpha / max(1, max(tried, len(entrants)) - 1)
    first = order[0]
    could_be = [
        place for place in order if not any(_is_below(entrants[place], entrants[other], level) for other in order)
    ]
    lead = None
    if len(order) > 1:
        gap = entrants[first].log - entrants[order[1]].log
        low = min(-_reach(entrants[place], entrants[first], level) for place in order[1:])
        high = min(_reach(entrants[first], entrants[place], level) for place in order[1:])
        lead = from_log(gap), from_log(low), from_log(max(high, gap))
    return Best(first, tuple(could_be), lead, level)


def _is_below(one: Entrant, other: Entrant, level: float) -> bool:
    """Say whether the whole interval of one less other lies below 0."""
    gap = other.log - one.log
    if gap <= 0.0:
        return False
    error, df = _spread(one, other)
    return error == 0.0 or 2.0 * tail(gap / error, df) < 1.0 - level


def _reach(one: Entrant, other: Entrant, level: float) -> float:
    """Return the upper end of the interval of one less other."""
    error, df = _spread(one, other)
    return one.log - other.log + (two_sided(level, df) * error if error > 0.0 else 0.0)


def _spread(one: Entrant, other: Entrant) -> tuple[float, float]:
    total = one.squared_error + other.squared_error
    below = math.fsum(e.squared_error**2 / e.df for e in (one, other))
    return math.sqrt(total), total * total / below if below > 0.0 else math.inf


def entrants(groups: Sequence[Sequence[float]], stays: Sequence[float] = ()) -> list[Entrant]:
    """Return an Entrant for each group of logs, one a trial; a group has one at least.

    stays: squared error of each that more trials do not lower. Where no group has two, a spread of 10 % is assumed.
    """
    spreads = [spread_of(group) for group in groups]
    within = [(one.df, one.variance) for one in spreads if one is not None]
    df = sum(n for n, _ in within)
    worth = min(_WORTH, max(0.0, len(within) - 2.0))  # two tell each other's spread no better than their own
    usual = math.fsum(n * v for n, v in within) / df if df else _ASSUMED**2
    found = []
    for place, (group, shown) in enumerate(zip(groups, spreads, strict=True)):
        own = len(group) - 1
        if shown is not None and df > own:
            spread, freedom = (worth * usual + own * shown.variance) / (worth + own), worth + own
        else:
            spread, freedom = usual, max(1.0, worth if df else _WORTH, float(own))
        fixed = stays[place] if stays else 0.0
        found.append(Entrant(fmean(group), spread / len(group) + fixed, freedom))
    return found
