"""Two runs of the same program always differ: one of each side says nothing about the programs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def wrong(a_s: float, b_s: float) -> str:
    """Return the verdict on B from one run of each side."""
    return "faster" if b_s < a_s else "slower"


T_975 = 2.306  # Student's t for a 95 % interval: 8 degrees of freedom, five runs of each side


def right(a_s: Sequence[float], b_s: Sequence[float]) -> tuple[str, float, float]:
    """Return the verdict on B from five runs of each side, and the 95 % interval of B's time over A's."""
    a, b = [math.log(s) for s in a_s], [math.log(s) for s in b_s]
    difference = statistics.fmean(b) - statistics.fmean(a)
    half = T_975 * math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    low, high = math.exp(difference - half), math.exp(difference + half)
    verdict = "faster" if high < 1.0 else "slower" if low > 1.0 else "not significantly different"
    return verdict, low, high
