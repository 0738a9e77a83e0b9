"""The trimmed mean and its standard error: the location of values of which some were disturbed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Location(NamedTuple):
    """A location in the values' own unit, its standard error, and the degrees of freedom behind that."""

    value: float
    error: float
    df: float


def trimmed_mean(values: Sequence[float], share: float = 0.2) -> float:
    """Return the mean of the values without the lowest and the highest `share` of them.

    Raises ValueError without a value, or where share is outside [0, 0.5).
    """
    ordered, cut = _ordered(values, share)
    kept = ordered[cut : len(ordered) - cut]
    return math.fsum(kept) / len(kept)


def trimmed(values: Sequence[float], share: float = 0.2) -> Location | None:
    """Return the trimmed mean with its standard error from the winsorized variance; None of fewer than 2 kept values.

    Tukey & McLaughlin, Sankhya A 25 (1963); Yuen, Biometrika 61 (1974): (n - 1) s_w^2 / (h (h - 1)), with h values
    kept, is the squared error of the trimmed mean, and h - 1 its degrees of freedom. Raises as `trimmed_mean`.
    """
    ordered, cut = _ordered(values, share)
    n = len(ordered)
    kept = n - 2 * cut
    if kept < 2:
        return None
    winsorized = [ordered[cut]] * cut + ordered[cut : n - cut] + [ordered[n - cut - 1]] * cut
    centre = math.fsum(winsorized) / n
    squares = math.fsum((value - centre) ** 2 for value in winsorized)
    error = math.sqrt(squares / (kept * (kept - 1)))
    return Location(trimmed_mean(ordered, share), error, kept - 1)


def _ordered(values: Sequence[float], share: float) -> tuple[list[float], int]:
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a trimmed mean needs finite values: {list(values)!r}")
    if not 0.0 <= share < 0.5:
        raise ValueError(f"share {share!r} is not in [0, 0.5)")
    return sorted(values), int(share * len(values))
