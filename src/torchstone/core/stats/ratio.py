"""Whether two figures differ significantly, from their values and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torchstone.core.stats.logs import from_log
from torchstone.core.stats.student import two_sided


class LogMean(NamedTuple):
    """The mean of the logarithms of a figure over trials, the standard deviation of one trial, and how many."""

    log: float
    deviation: float
    trials: int


def log_mean(value: float, low: float | None, high: float | None, trials: int, level: float = 0.95) -> LogMean | None:
    """Return what stood behind a t-interval on the log (stats.interval.over_trials); None without an interval.

    `value`, `low` and `high` in the figure's own unit, positive. Raises ValueError where level is outside (0, 1).
    """
    if low is None or high is None or trials < 2 or not 0.0 < low <= value <= high:
        return None
    half = math.log(high / low) / 2.0
    return LogMean(math.log(value), half / two_sided(level, trials - 1) * math.sqrt(trials), trials)


def ratio(a: LogMean, b: LogMean, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the interval of a ÷ b (no unit): of the difference of two means of logarithms.

    Welch, Biometrika 34 (1947); degrees of freedom by Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    parts = [one.deviation**2 / one.trials for one in (a, b)]
    variance = sum(parts)
    if variance <= 0.0:
        return from_log(a.log - b.log), from_log(a.log - b.log)
    df = variance**2 / sum(part**2 / (one.trials - 1) for part, one in zip(parts, (a, b), strict=True))
    half = two_sided(level, df) * math.sqrt(variance)
    return from_log(a.log - b.log - half), from_log(a.log - b.log + half)


def pooled(means: Sequence[LogMean]) -> tuple[float, int]:
    """Return (standard deviation of one trial, degrees of freedom) over groups of equal spread.

    The error term of a one-way analysis of variance (Fisher 1925). Raises ValueError without a group of two trials.
    """
    df = sum(one.trials - 1 for one in means)
    if df <= 0:
        raise ValueError("no group of two trials: there is no spread to pool")
    return math.sqrt(sum((one.trials - 1) * one.deviation**2 for one in means) / df), df
