"""Quantiles as order statistics: the value, its distribution-free interval, and how many samples support it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

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
def needed(q: float, confidence: float = CONFIDENCE) -> int:
    """Return the smallest sample that supports the q-quantile: 64 for 0.9, 130 for 0.95, 662 for 0.99, 6,636 for 0.999.

    The early-stopping rule of MLPerf LoadGen (Reddi et al., MLPerf Inference Benchmark, ISCA 2020; loadgen/
    early_stopping.cc): the smallest n in which a share q of fast answers would show at most one slow one with a
    probability of at most 1 - confidence: P(B <= 1) = qⁿ + n(1-q)qⁿ⁻¹ <= 1 - confidence for B binomial (n, 1-q).
    Below it, the sample could not have told a true quantile from one a few ranks away.
    """
    _require(q)
    low, high = 1, 2
    while _at_most_one(high, q) > 1.0 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _at_most_one(middle, q) <= 1.0 - confidence else (middle, high)
    return high


def supported(q: float, n: int) -> bool:
    """Return whether n independent samples are enough to state the q-quantile."""
    return n >= needed(q)


def _at_most_one(n: int, q: float) -> float:
    return q ** (n - 1) * (q + n * (1.0 - q))


def _require(q: float) -> None:
    if not 0.0 < q < 1.0:
        raise ValueError(f"quantile {q!r} is not between 0 and 1")
