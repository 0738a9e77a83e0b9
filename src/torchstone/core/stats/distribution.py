"""A distribution as the curve of its quantiles, with the interval of each: over trials, or by the steps of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.quantile import rank

_MOST = 200  # shares: a picture has no more pixels for a curve


class Quantile(NamedTuple):
    """The value that a share of the distribution does not exceed, and the ends of its interval; None: there is none."""

    share: float
    value: float
    low: float | None
    high: float | None


def half_width(n: int, level: float = 0.95) -> float:
    """Return ε: with probability `level` the distribution function of n independent values lies within ±ε everywhere.

    ε = √(ln(2 / (1 - level)) / 2n): the inequality of Dvoretzky, Kiefer & Wolfowitz (Annals of Mathematical Statistics
    27(3), 1956) with the constant of Massart (Annals of Probability 18(3), 1990). Raises ValueError for n < 1 or a
    level outside (0, 1).
    """
    if n < 1 or not 0.0 < level < 1.0:
        raise ValueError(f"no band of {n} values at level {level!r}")
    return math.sqrt(math.log(2.0 / (1.0 - level)) / (2.0 * n))


def of_one_trial(values: Sequence[float], level: float = 0.95, most: int = _MOST) -> list[Quantile]:
    """Return the empirical distribution of a trial's steps, by rising share, with the band that holds for all of it.

    At share p the true quantile lies between those of the sample at p - ε and p + ε (see `half_width`); an end beyond
    the sample is None. Steps are taken for independent, so that of correlated ones the band is too narrow; and it says
    nothing of other processes: for that take several trials. Of more than `most` values as many ranks, equally far
    apart, the first and the last among them. Raises ValueError without a value.
    """
    if not values:
        raise ValueError("no values, no distribution")
    ordered, n = sorted(values), len(values)
    reach = half_width(n, level)
    return [
        Quantile(place / n, ordered[place - 1], _at(ordered, place / n - reach), _at(ordered, place / n + reach))
        for place in _ranks(n, most)
    ]


def over_several(trials: Sequence[Sequence[float]], level: float = 0.95, most: int = _MOST) -> list[Quantile]:
    """Return the quantiles by rising share, each the mean over trials with its own (pointwise) interval.

    The trial is the replicate, as for every figure: of each trial the quantile of that share (core/stats/quantile.py),
    of those the mean and Student's interval on their logarithms (core/stats/interval.py). Shares: the middles of
    as many equal parts as the shortest trial has values, at most `most`. The interval of a figure in a table may be
    narrower, where other cases moderate it. Values have to be finite. Raises ValueError where there is no trial, or one
    without a value.
    """
    if not trials or not all(trials):
        raise ValueError("no values, no distribution")
    ordered = [sorted(values) for values in trials]
    count = min(most, *map(len, ordered))
    found = []
    for place in range(count):
        share = (place + 0.5) / count
        told = over_trials([values[rank(share, len(values)) - 1] for values in ordered], level)
        found.append(Quantile(share, told.value, told.low, told.high))
    return found


def _ranks(n: int, most: int) -> list[int]:
    if n <= most:
        return list(range(1, n + 1))
    return sorted({1 + round(step * (n - 1) / (most - 1)) for step in range(most)})


def _at(ordered: Sequence[float], share: float) -> float | None:
    """Return the quantile of a sample at a share; None where the share is not inside (0, 1)."""
    return ordered[rank(share, len(ordered)) - 1] if 0.0 < share <= 1.0 else None
