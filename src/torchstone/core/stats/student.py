"""Quantiles of the normal and of Student's t distribution, in the standard library's arithmetic alone."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# exp() of more overflows, and of less is no longer a positive number: absurd records must not end a command
_MOST = math.log(1e308)


def from_log(log: float) -> float:
    """Return e to the `log` (no unit), held between 1e-308 and 1e308, so that it is positive and finite."""
    return math.exp(min(max(log, -_MOST), _MOST))


_TINY = 1e-300
_CLOSE = 1e-15
_MOST_TERMS = 10_000
_HALLEY = 1e-5
_NORMAL_DF = 1e9  # from here on it is the normal to seven digits, and differences of lgamma lose more than that


def normal_quantile(probability: float) -> float:
    """Return z with P(Z <= z) = probability for a standard normal Z. Raises ValueError outside (0, 1)."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability {probability!r} is not between 0 and 1")
    return NormalDist().inv_cdf(probability)


def two_sided(level: float, df: float) -> float:
    """Return t with P(|T| <= t) = level: the multiplier of a two-sided interval. Raises ValueError, as t_quantile."""
    return t_quantile(0.5 + level / 2.0, df)


@lru_cache(maxsize=8192)
def t_quantile(probability: float, df: float) -> float:
    """Return t with P(T <= t) = probability for Student's t with `df` > 0 degrees of freedom (real, not only whole).

    Newton's method on the distribution function, begun at an approximation (_near). For t > 0
    the function is concave, so that a step from either side ends below the root, from where the sequence rises to it
    without a bracket. Raises ValueError where probability is outside (0, 1) or df <= 0.
    """
    if not df > 0.0:
        raise ValueError(f"degrees of freedom {df!r} are not positive")
    t = normal_quantile(probability)
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    if probability == 0.5 or df > _NORMAL_DF:
        return t
    t = max(t, _near(t, 2.0 * (1.0 - probability), df))  # Student's tails are heavier than the normal's
    before = math.inf
    for _ in range(200):
        step = _shortfall(t, probability, df) / _density(t, df)
        if abs(step) <= _HALLEY * t:  # Halley's method, whose error is a cube: one such step is the last
            t += step / (1.0 - step * (df + 1.0) * t / (2.0 * (df + t * t)))
            break
        t += step
        if before <= abs(step) <= 1e-9 * t:  # a small step that grows is rounding
            break
        before = abs(step)
    return t


def _near(normal: float, outside: float, df: float) -> float:
    """Return t with P(|T| > t) = outside, to three digits or more; below 2 degrees of freedom `normal`, that of Z.

    Hill 1970, Algorithm 396: Student's t-quantiles, Communications of the ACM 13, 619-620.
    """
    if df < 2.0:
        return normal
    a = 1.0 / (df - 0.5)
    b = 48.0 / (a * a)
    c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2.0) * df
    y = (d * outside) ** (2.0 / df)
    if y > 0.05 + a:  # in the middle: an expansion about the normal quantile
        x, y = -normal, normal * normal
        if df < 5.0:
            c += 0.3 * (df - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1.0 / (((df + 6.0) / (df * y) - 0.089 * d - 0.822) * (df + 2.0) * 3.0) + 0.5 / (df + 4.0)) * y - 1.0) * (
            df + 1.0
        ) / (df + 2.0) + 1.0 / y
    return math.sqrt(df * y)


def tail(t: float, df: float) -> float:
    """Return P(T > t) for t >= 0 and Student's t with `df` > 0 degrees of freedom. Raises ValueError for others."""
    if not (t >= 0.0 and df > 0.0):
        raise ValueError(f"no tail of Student's t from {t!r} on, with {df!r} degrees of freedom")
    if df > _NORMAL_DF:
        return NormalDist().cdf(-t)
    return _shortfall(t, 1.0, df) if t > 0.0 else 0.5


def _density(t: float, df: float) -> float:
    log_scale = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0) - 0.5 * math.log(df * math.pi)
    return math.exp(log_scale - (df + 1.0) / 2.0 * math.log1p(t * t / df))


def _shortfall(t: float, probability: float, df: float) -> float:
    """Return probability - P(T <= t) for t > 0, from whichever side of t loses no digits.

    Abramowitz & Stegun 1964, 26.5.27 and 26.7.1: P(0 < T < t) is half of I_x(1/2, df/2) at x = t² / (df + t²).
    """
    square = t * t
    x, y = square / (df + square), df / (df + square)
    if x < 1.5 / (df / 2.0 + 2.5):
        return (probability - 0.5) - 0.5 * _incomplete_beta(0.5, df / 2.0, x, y)
    return 0.5 * _incomplete_beta(df / 2.0, 0.5, y, x) - (1.0 - probability)


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return I_x(a, b) with y = 1 - x, for x below (a + 1) / (a + b + 2), where the fraction converges fast.

    The continued fraction of Abramowitz & Stegun 26.5.8, by the method of Lentz as modified by Thompson & Barnett
    (Press et al., Numerical Recipes, 3rd ed. 2007, §5.2 and §6.4).
    """
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    c, d = 1.0, 1.0 / _away_from_0(1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _away_from_0(1.0 + term * d)
            c = _away_from_0(1.0 + term / c)
            fraction *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return math.exp(log_front) * fraction / a


def _away_from_0(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
