"""Bimodality: the best split of values into two groups, and the distance between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

FEWEST = 20


class Split(NamedTuple):
    """Two kinds of values: the level of each (geometric mean), the share of the upper, and how clean the split is.

    `separation` is Ashman's D of the logarithms: the distance of the means over the root mean square of the
    deviations. `gap`: the widest empty stretch between the two, over their distance.
    """

    low: float
    high: float
    share: float
    separation: float
    gap: float
    border: float


def split(values: Sequence[float]) -> Split | None:
    """Return the best split of positive values in two kinds; None under 20 values, or where they are all equal.

    The border is that of Otsu (IEEE Trans. SMC 9(1), 1979): it leaves the least variance within the two. D above 2 is
    a clean separation of two normal kinds (Ashman, Bird & Zepf, Astronomical Journal 108, 1994), but one normal kind
    that is cut at its middle has 2.6 and an even spread has 3.5, so that more must be asked for. O(n log n).
    """
    ordered = sorted(math.log(v) for v in values)
    n = len(ordered)
    if n < FEWEST or ordered[0] == ordered[-1]:
        return None
    sums, squares = list(accumulate(ordered)), list(accumulate(v * v for v in ordered))

    def within(count: int) -> float:
        """Return the sum of squares within both kinds, if the lower has `count` values."""
        rest, upper = n - count, sums[-1] - sums[count - 1]
        return squares[-1] - sums[count - 1] ** 2 / count - upper**2 / rest

    count = min(range(1, n), key=within)
    lower, upper = ordered[:count], ordered[count:]
    low, high = sums[count - 1] / count, (sums[-1] - sums[count - 1]) / (n - count)
    deviation = math.sqrt((_variance(lower, low) + _variance(upper, high)) / 2.0)
    separation = (high - low) / deviation if deviation > 0.0 else math.inf
    gap, border = upper[0] - lower[-1], (upper[0] + lower[-1]) / 2.0
    return Split(math.exp(low), math.exp(high), (n - count) / n, separation, gap / (high - low), math.exp(border))


def _variance(values: Sequence[float], mean: float) -> float:
    return math.fsum((v - mean) ** 2 for v in values) / len(values)
