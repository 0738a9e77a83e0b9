"""The best of many runs gets better with their number: it compares how often each side was tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def wrong(a_s: Sequence[float], b_s: Sequence[float]) -> float:
    """Return B's time over A's, by the best run of each."""
    return min(b_s) / min(a_s)


def right(a_s: Sequence[float], b_s: Sequence[float]) -> float:
    """Return B's time over A's, by all runs of each."""
    return statistics.geometric_mean(b_s) / statistics.geometric_mean(a_s)
