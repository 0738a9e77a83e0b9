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
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from torchstone.core.stats.comparing import Difference, VariancePart, bonferroni, difference
from torchstone.core.stats.moderated import trial_spread

WITH_THE_BEST = "Welch's t on the log over trials, against all others (Bonferroni)"
_WORTH = 4.0  # most degrees of freedom that the spread of all others is worth beside one's own
_ASSUMED = 0.1  # of the log of a trial, where none has two: trials of the same code differ so


class Best(NamedTuple):
    """`best`: the highest (its place); `could_be`: all places that may be the best, the highest first.

    `lead`: best ÷ the highest of the others with the ends of its interval; None of one alone. `level` of
    that; `paired`: by the ratios of rounds.
    """

    best: int
    could_be: tuple[int, ...]
    lead: tuple[float, float, float] | None
    level: float
    paired: bool = False

    @property
    def is_clear(self) -> bool:
        """Whether it is known which one is the best."""
        return len(self.could_be) == 1


def pair_level(many: int, alpha: float = 0.05) -> float:
    """Return the level at which each two of `many` are compared so that no equal ones are called different.

    With a probability of at least 1 - alpha, whichever two are looked at.
    """
    return bonferroni(many * (many - 1) // 2, alpha)


def best_of(
    entrants: Sequence[VariancePart],
    alpha: float = 0.05,
    tried: int = 0,
    in_rounds: Callable[[int, int], Difference | None] | None = None,
) -> Best:
    """Return the best (of logs where higher is better) and what is not significantly different from it.

    tried: how many there were, where some that could not win are not among the entrants any more.
    in_rounds: one place less another, of those that were measured in turn; all pairs then hold together, as they do
    where a run is shown, and the lead is the interval of that pair. None of a pair: by its entrants.
    Raises ValueError without an entrant, or for alpha outside (0, 1).
    """
    if not entrants or not 0.0 < alpha < 1.0:
        raise ValueError(f"no best of {len(entrants)} at {alpha!r}")
    first, *others = order = sorted(range(len(entrants)), key=lambda place: -entrants[place].log)
    count = max(tried, len(entrants))
    level = bonferroni(count - 1, alpha) if in_rounds is None else pair_level(count, alpha)

    def less(one: int, other: int) -> Difference:
        found = in_rounds(one, other) if in_rounds is not None else None
        return found or difference(entrants[other], entrants[one])

    def is_below(one: int, other: int) -> bool:
        """Say whether the whole interval of one less other lies below 0."""
        found = less(one, other)
        return found.log < 0.0 and found.p_value() < 1.0 - level

    could_be = [place for place in order if not any(is_below(place, other) for other in order if other != place)]
    lead = None
    if others:
        leads = [less(first, place).ratio(level) for place in others]
        value, low, high = leads[0]
        if in_rounds is None:
            low, high = min(low for _, low, _ in leads), min(high for _, _, high in leads)
        lead = value, low, high
    return Best(first, tuple(could_be), lead, level, in_rounds is not None)


def entrants(groups: Sequence[Sequence[float]]) -> list[VariancePart]:
    """Return a Part for each group of logs, one a trial; a group has one at least.

    Where no group has two, a spread of 10 % is assumed.
    """
    spreads = [trial_spread(group) for group in groups]
    within = [(one.df, one.variance) for one in spreads if one is not None]
    df = sum(n for n, _ in within)
    worth = min(_WORTH, max(0.0, len(within) - 2.0))  # two tell each other's spread no better than their own
    usual = math.fsum(n * v for n, v in within) / df if df else _ASSUMED**2
    found = []
    for group, shown in zip(groups, spreads, strict=True):
        own = len(group) - 1
        if shown is not None and df > own:
            spread, freedom = (worth * usual + own * shown.variance) / (worth + own), worth + own
        else:
            spread, freedom = usual, max(1.0, worth if df else _WORTH, float(own))
        found.append(VariancePart(fmean(group), spread, len(group), freedom))
    return found
