"""Quantiles as order statistics: distribution-free intervals, the samples they need, and the curve of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from torchstone.core.stats.interval import over_trials

_MOST = 200  # shares: a picture has no more pixels for a curve


class Quantile(NamedTuple):
    """The value that a share of the distribution does not exceed, and the ends of its interval; None: there is none."""

    share: float
    value: float
    low: float | None
    high: float | None


def band_half_width(n: int, level: float = 0.95) -> float:
    """Return ε: with probability `level` the distribution function of n independent values lies within ±ε everywhere.

    ε = √(ln(2 / (1 - level)) / 2n): the inequality of Dvoretzky, Kiefer & Wolfowitz (Annals of Mathematical Statistics
    27(3), 1956) with the constant of Massart (Annals of Probability 18(3), 1990). Raises ValueError for n < 1 or a
    level outside (0, 1).
    """
    if n < 1 or not 0.0 < level < 1.0:
        raise ValueError(f"no band of {n} values at level {level!r}")
    return math.sqrt(math.log(2.0 / (1.0 - level)) / (2.0 * n))


def of_one_trial(values: Sequence[float], most: int = _MOST) -> list[Quantile]:
    """Return the empirical distribution of a trial's steps, by rising share, with the band that holds for all of it.

    At share p the true quantile lies between those of the sample at p - ε and p + ε (`band_half_width`); an end beyond
    the sample is None. Steps are taken for independent, so that of correlated ones the band is too narrow; and it says
    nothing of other processes: for that take several trials. Of more than `most` values as many ranks, equally far
    apart, the first and the last among them. Raises ValueError without a value.
    """
    if not values:
        raise ValueError("no values, no distribution")
    ordered, n = sorted(values), len(values)
    reach = band_half_width(n)
    return [
        Quantile(place / n, ordered[place - 1], _at(ordered, place / n - reach), _at(ordered, place / n + reach))
        for place in _spread_ranks(n, most)
    ]


def over_several(trials: Sequence[Sequence[float]], most: int = _MOST) -> list[Quantile]:
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
        told = over_trials([values[rank(share, len(values)) - 1] for values in ordered])
        found.append(Quantile(share, told.value, told.low, told.high))
    return found


def _spread_ranks(n: int, most: int) -> list[int]:
    if n <= most:
        return list(range(1, n + 1))
    return sorted({1 + round(step * (n - 1) / (most - 1)) for step in range(most)})


def _at(ordered: Sequence[float], share: float) -> float | None:
    """Return the quantile of a sample at a share; None where the share is not inside (0, 1)."""
    return ordered[rank(share, len(ordered)) - 1] if 0.0 < share <= 1.0 else None


CONFIDENCE = 0.99


class Bounds(NamedTuple):
    """The ends of a quantile's interval; None where the sample has no order statistic that far out."""

    low: float | None
    high: float | None


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile: the ceil(n·q)-th smallest value, so at least a share q of the sample is <= it.

    Definition 1 of Hyndman & Fan, The American Statistician 50(4), 1996 (the inverse of the empirical distribution
    function): always a value that was measured, never one interpolated beyond them. Unit: that of `values`.
    Raises ValueError where `values` is empty or q is outside (0, 1).
    """
    _require(q)
    if not values:
        raise ValueError("no values, no quantile")
    return sorted(values)[rank(q, len(values)) - 1]


def rank(q: float, n: int) -> int:
    """Return which order statistic (1 to n) is the q-quantile of n values."""
    # 0.07 * 100 is 7.000000000000001 in binary: without the allowance its quantile would be the 8th value
    return min(n, max(1, math.ceil(n * q - 1e-9)))


def bounds(values: Sequence[float], q: float, level: float = 0.95) -> Bounds:
    """Return the distribution-free interval of the q-quantile of independent values, in their unit.

    The number of values below the true quantile is binomial (n, q); the ends are the order statistics that it passes
    with at most (1 - level) / 2 on either side (David & Nagaraja, Order Statistics, 3rd ed. 2003, §7.1; Hahn & Meeker,
    Statistical Intervals, 1991, §5.2). Conservative, since ranks are whole. Raises ValueError as `quantile`.
    """
    _require(q)
    if not values:
        raise ValueError("no values, no interval")
    ordered, n, tail = sorted(values), len(values), (1.0 - level) / 2.0
    low, high = _ranks(n, q, tail)
    return Bounds(ordered[low - 1] if low >= 1 else None, ordered[high - 1] if high <= n else None)


def _ranks(n: int, q: float, tail: float) -> tuple[int, int]:
    """Return the largest rank l with P(B < l) <= tail and the smallest rank u with P(B >= u) <= tail."""
    reach = 12.0 * math.sqrt(n * q * (1.0 - q)) + 30.0  # what lies beyond is under 1e-20
    first, last = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    log_q, log_p, log_n = math.log(q), math.log1p(-q), math.lgamma(n + 1)
    low, high, below = 0, n + 1, 0.0
    for k in range(first, last + 1):
        if below <= tail:
            low = k
        if below >= 1.0 - tail:
            high = k
            break
        below += math.exp(log_n - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_q + (n - k) * log_p)
    return low, high


@cache
def needed(q: float) -> int:
    """Return the smallest sample that supports the q-quantile: 64 for 0.9, 130 for 0.95, 662 for 0.99, 6,636 for 0.999.

    The early-stopping rule of MLPerf LoadGen (Reddi et al., MLPerf Inference Benchmark, ISCA 2020; loadgen/
    early_stopping.cc): the smallest n in which a share q of fast answers would show at most one slow one with a
    probability of at most 1 - CONFIDENCE: P(B <= 1) = qⁿ + n(1-q)qⁿ⁻¹ <= 1 - CONFIDENCE for B binomial (n, 1-q).
    Below it, the sample could not have told a true quantile from one a few ranks away.
    """
    _require(q)
    low, high = 1, 2
    while _at_most_one(high, q) > 1.0 - CONFIDENCE:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _at_most_one(middle, q) <= 1.0 - CONFIDENCE else (middle, high)
    return high


def supported(q: float, n: int) -> bool:
    """Return whether n independent samples are enough to state the q-quantile."""
    return n >= needed(q)


def _at_most_one(n: int, q: float) -> float:
    return q ** (n - 1) * (q + n * (1.0 - q))


def _require(q: float) -> None:
    if not 0.0 < q < 1.0:
        raise ValueError(f"quantile {q!r} is not between 0 and 1")
