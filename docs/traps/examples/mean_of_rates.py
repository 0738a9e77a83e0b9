"""The mean of the rates of steps is not the rate of the whole: it counts short steps too often."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def wrong(items: Sequence[int], times_s: Sequence[float]) -> float:
    """Return the mean of each step's items/s."""
    return statistics.fmean(n / time_s for n, time_s in zip(items, times_s, strict=True))


def right(items: Sequence[int], times_s: Sequence[float]) -> float:
    """Return all items over all time."""
    return sum(items) / sum(times_s)
