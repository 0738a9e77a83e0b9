"""The first two derivatives of the logarithm of the gamma function, and the inverse of the second."""

from __future__ import annotations

import math
from functools import lru_cache

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
