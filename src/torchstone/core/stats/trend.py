"""Trend of a series: a robust test and slope, against outliers, steps and any shape of noise."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from statistics import median


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
