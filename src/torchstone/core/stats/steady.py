"""Where warm-up ends, and whether the steps after it drift, have a trend or two modes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean, median
from typing import NamedTuple


def sen_slope(at: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the median of the slopes between all pairs (value a unit of `at`); None under two different places.

    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63(324), 1968: 29 % of the values may be
    anything. O(n²).
    """
    points = sorted(zip(at, values, strict=True))
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if b[0] > a[0]]
    return median(slopes) if slopes else None


def rising(values: Sequence[float]) -> float:
    """Return by how many standard deviations more pairs rise than fall, in the order given; negative where they fall.

    Mann, Econometrica 13(3), 1945, with the correction for ties of Kendall, Rank Correlation Methods, 4th ed. 1975, and
    for continuity; near a standard normal without a trend, from 8 values on. O(n²).
    """
    n = len(values)
    score = sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18.0
    return math.copysign(max(0, abs(score) - 1) / math.sqrt(variance), score) if variance > 0.0 else 0.0


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


def two_kinds(values: Sequence[float]) -> Split | None:
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


NEWEST = 20
BATCH = 5
_SHORT = 50  # under ten batches of five, MSER-5 has too few points to choose from
_BLOCKS = 100
_FEWEST_FOR_DRIFT = 5


def settled(steps: Sequence[float], tolerance: float = 0.05) -> bool:
    """Return whether warm-up may end now: are the newest steps as fast as those just before?

    Of the newest 20 steps (or fewer, an odd oldest one left out) the median of the newer half lies within `tolerance`,
    relative, of the median of the older half. Two steps are compared with each other; fewer are never settled. Medians,
    because one step that the kernel interrupted must not prolong warm-up. Cost does not grow with len(steps).
    """
    half = min(len(steps), NEWEST) // 2
    if half == 0:
        return False
    older, newer = median(steps[-2 * half : -half]), median(steps[-half:])
    return abs(newer - older) <= tolerance * abs(older)


def truncation(steps: Sequence[float]) -> int:
    """Return how many of the first steps are warm-up: the index at which the steady part begins, at most half.

    MSER-5 (White, Simulation 69(6), 1997; White, Cobb & Spratt, WSC 2000): of the means of five steps each, leave out
    the first d for which Σ(y - ȳ)²/(m - d)² over the m - d that remain, the squared width of the interval of their
    mean, is smallest. Under 50 steps single steps take the place of the means (MSER-1). O(n). A result of about half
    says that the sequence is too short to tell, or never settles.
    """
    size = 1 if len(steps) < _SHORT else BATCH
    means = [fmean(steps[i : i + size]) for i in range(0, len(steps) - size + 1, size)]
    if len(means) < 2:
        return 0
    # counted from the last value: equal steps then give exact zeros, and no digits are lost in the squares
    origin, total, squares = means[-1], 0.0, 0.0
    best, smallest = 0, float("inf")
    for d in range(len(means) - 1, -1, -1):
        y = means[d] - origin
        total += y
        squares += y * y
        left = len(means) - d
        width = max(0.0, squares - total * total / left) / (left * left)
        if d <= len(means) // 2 and width <= smallest:
            best, smallest = d, width
    return best * size


def relative_drift(steps: Sequence[float]) -> float | None:
    """Return the relative change of the step time over the window (0.1: the end is 10 % slower); None under 5 steps.

    The Theil-Sen slope, the median of the slopes of all pairs (Sen, JASA 63, 1968), times the length, over the median.
    It is taken on the medians of at most 100 blocks, so cost stays flat beyond sorting.
    """
    n = len(steps)
    if n < _FEWEST_FOR_DRIFT:
        return None
    blocks = min(n, _BLOCKS)
    edges = [i * n // blocks for i in range(blocks + 1)]
    level = [median(steps[a:b]) for a, b in itertools.pairwise(edges)]
    at = [(a + b - 1) / 2.0 for a, b in itertools.pairwise(edges)]
    centre = median(level)
    if not centre > 0.0:
        return None
    slopes = [(level[j] - level[i]) / (at[j] - at[i]) for i in range(blocks) for j in range(i + 1, blocks)]
    return median(slopes) * (n - 1) / centre
