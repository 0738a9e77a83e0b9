"""The standard deviation of a few trials, moderated by that of similar ones (empirical Bayes).

Three trials tell their own spread badly: the t-interval pays for that with a factor of 4.3. What other cases of the
same run, or earlier runs on the same machine, spread by says something of it, too. Smyth (Statistical Applications in
Genetics and Molecular Biology 3(1), 2004) draws each variance towards a common one, as if that stood for `df` further
degrees of freedom. His method takes for granted that the common one is right. Here it may be of another hour or
another kind of case: how far it is believed follows from how well it explains what the trials themselves show, and
the rest of the belief goes to Student's t of the trials alone (a contaminated prior: Berger & Berliner, Annals of
Statistics 14(2), 1986). Coverage, also where the prior misleads: tests/statistics/test_moderated.py, docs/measured.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from torchstone.core.stats.student import two_sided

_FAR = 8.0  # from here on the asymptotic series is exact to 1e-12


@lru_cache(maxsize=1024)
def digamma(x: float) -> float:
    """Return the derivative of log gamma at x > 0 (Abramowitz & Stegun 1964, 6.3.5 and 6.3.18). Raises ValueError."""
    total, x = 0.0, _positive(x)
    while x < _FAR:
        total -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)))
    return total + math.log(x) - 0.5 / x - series


@lru_cache(maxsize=1024)
def trigamma(x: float) -> float:
    """Return the second derivative of log gamma at x > 0 (Abramowitz & Stegun 1964, 6.4.6 and 6.4.12).

    Raises ValueError.
    """
    total, x = 0.0, _positive(x)
    while x < _FAR:
        total += 1.0 / (x * x)
        x += 1.0
    square = 1.0 / (x * x)
    series = square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)))
    return total + (1.0 + 0.5 / x + series) / x


def inverse_trigamma(y: float) -> float:
    """Return x > 0 with trigamma(x) = y, for y > 0. Raises ValueError.

    Bisection on the logarithm: the function falls from infinity to 0, and 1/x < trigamma(x) < 1/x + 1/x².
    """
    if not y > 0.0:
        raise ValueError(f"trigamma is positive, and not {y!r}")
    low, high = 1.0 / y, 1.0 / y + 1.0 / math.sqrt(y)
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if trigamma(middle) > y else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return (low + high) / 2.0


def _positive(x: float) -> float:
    if not x > 0.0:
        raise ValueError(f"{x!r} is not positive")
    return x


_DOUBT_OF_SIBLINGS, _DOUBT_OF_HISTORY = 0.2, 0.6
_MOST_DF = 4.0  # that siblings are worth
_SHARE_DF = 0.5  # of the degrees of freedom behind them
_HISTORY_DF = 1.0
_FEWEST_TO_FIT = 3
_VAGUE_DF = 0.5  # of the spread that is expected where the prior does not hold
_LEAST_VARIANCE = 1e-12  # of logarithms: a spread of a millionth
_LARGEST_EXPONENT = 700.0  # of e in a float


class Spread(NamedTuple):
    """The variance of one trial (of its logarithm, no unit), and the degrees of freedom behind it."""

    variance: float
    df: float


class Prior(NamedTuple):
    """What a variance is expected to be, for how many degrees of freedom that counts, and how far it is doubted."""

    variance: float
    df: float
    doubt: float


def trial_spread(logs: Sequence[float]) -> Spread | None:
    """Return the spread of the logarithms of a figure, one a trial; None of fewer than two."""
    if len(logs) < 2:
        return None
    centre = math.fsum(logs) / len(logs)
    return Spread(math.fsum((log - centre) ** 2 for log in logs) / (len(logs) - 1), len(logs) - 1)


def of_siblings(spreads: Sequence[Spread]) -> Prior | None:
    """Return what the spreads of other cases of one run say of one more; None where there is none.

    Three and more: centre and strength by the moments of their logarithms (Smyth 2004, §6.2). Fewer: their mean, for
    one degree of freedom.
    """
    known = [s for s in spreads if s.variance > _LEAST_VARIANCE and s.df > 0.0]
    if not known:
        return None
    total = math.fsum(s.df for s in known)
    pooled = math.fsum(s.df * s.variance for s in known) / total
    if len(known) < _FEWEST_TO_FIT:
        return Prior(pooled, _HISTORY_DF, _DOUBT_OF_SIBLINGS)
    variance, df = _fit_spreads(known, pooled)
    return Prior(variance, max(_VAGUE_DF, min(df, _MOST_DF, _SHARE_DF * total)), _DOUBT_OF_SIBLINGS)


def of_pooled(spread: Spread) -> Prior | None:
    """Return what one spread, pooled over many cases, says of each of them; None where it is 0."""
    df = max(_VAGUE_DF, min(_MOST_DF, _SHARE_DF * spread.df))
    return Prior(spread.variance, df, _DOUBT_OF_SIBLINGS) if spread.variance > _LEAST_VARIANCE else None


def of_history(deviation: float) -> Prior | None:
    """Return what the usual standard deviation of a trial on this machine says; None where it is 0.

    It counts for one trial only, and is doubted more than it is believed: the machine may have a worse hour.
    """
    variance = deviation * deviation
    return Prior(variance, _HISTORY_DF, _DOUBT_OF_HISTORY) if variance > _LEAST_VARIANCE else None


def typical_spread(spreads: Sequence[Spread]) -> float | None:
    """Return the typical standard deviation of one trial: of the mean logarithm, freed of its bias (Smyth 2004)."""
    known = [s for s in spreads if s.variance > _LEAST_VARIANCE and s.df > 0.0]
    if not known:
        return None
    return math.exp(math.fsum(_unbiased_log(s) for s in known) / len(known) / 2.0)


def half_width(own: Spread, trials: int, prior: Prior | None, level: float = 0.95) -> float:
    """Return half the two-sided interval of the mean of `trials` logarithms whose spread is `own`.

    Student's of the trials alone and that of the moderated spread, weighed by how well the prior explains the trials'
    own variance. Without a prior: Student's. Raises ValueError where the level is outside (0, 1).
    """
    alone = two_sided(level, own.df) * math.sqrt(own.variance / trials)
    if prior is None:
        return alone
    variance = (prior.df * prior.variance + own.df * own.variance) / (prior.df + own.df)
    moderated = two_sided(level, prior.df + own.df) * math.sqrt(variance / trials)
    doubted = _doubted(own, prior)
    return (1.0 - doubted) * moderated + doubted * alone


def as_student(own: Spread, trials: int, prior: Prior | None) -> Spread:
    """Return the spread whose Student's t-interval of the mean of `trials` values is that of `half_width` at 95 %.

    For what needs other levels, too, and p-values: its degrees of freedom lie between those of the two intervals.
    """
    if prior is None:
        return own
    doubted = _doubted(own, prior)
    df = 1.0 / ((1.0 - doubted) / (prior.df + own.df) + doubted / own.df)
    error = half_width(own, trials, prior) / two_sided(0.95, df)
    return Spread(error * error * trials, df)


def _doubted(own: Spread, prior: Prior) -> float:
    """Return how far the prior is doubted, once the trials' own variance is known."""
    ratio = max(own.variance, _LEAST_VARIANCE) / prior.variance
    # Their ratio of logarithms: of a hundred trials far quieter than the prior both are below the least float.
    apart = _log_density(ratio, own.df, _VAGUE_DF) - _log_density(ratio, own.df, prior.df)
    odds = prior.doubt * math.exp(max(-_LARGEST_EXPONENT, min(apart, _LARGEST_EXPONENT)))
    return odds / (odds + 1.0 - prior.doubt)


def _fit_spreads(spreads: Sequence[Spread], pooled: float) -> tuple[float, float]:
    """Return centre and degrees of freedom of the spreads' own distribution: infinite where they differ by chance."""
    logs = [_unbiased_log(s) for s in spreads]
    centre = math.fsum(logs) / len(logs)
    seen = math.fsum((log - centre) ** 2 for log in logs) / (len(logs) - 1)
    beyond = seen - math.fsum(trigamma(s.df / 2.0) for s in spreads) / len(spreads)
    if beyond <= 0.0:
        return pooled, math.inf
    df = 2.0 * inverse_trigamma(beyond)
    return math.exp(centre + digamma(df / 2.0) - math.log(df / 2.0)), df


def _unbiased_log(spread: Spread) -> float:
    return math.log(spread.variance) - digamma(spread.df / 2.0) + math.log(spread.df / 2.0)


def _log_density(ratio: float, above: float, below: float) -> float:
    """Return the log density of the F distribution with these degrees of freedom at a ratio of variances."""
    log = _scale(above, below) + (above / 2.0 - 1.0) * math.log(ratio)
    return log - (above + below) / 2.0 * math.log1p(above * ratio / below)


@lru_cache(maxsize=1024)
def _scale(above: float, below: float) -> float:
    beta = math.lgamma(above / 2.0) + math.lgamma(below / 2.0) - math.lgamma((above + below) / 2.0)
    return above / 2.0 * math.log(above / below) - beta
