"""A machine's speed drifts: all runs of A and then all runs of B compare two times of day."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable


def wrong(a: Callable[[], float], b: Callable[[], float], runs: int) -> float:
    """Return B's time over A's: first all runs of A, then all runs of B."""
    a_s = [a() for _ in range(runs)]
    b_s = [b() for _ in range(runs)]
    return statistics.fmean(b_s) / statistics.fmean(a_s)


def right(a: Callable[[], float], b: Callable[[], float], runs: int) -> float:
    """Return B's time over A's: in pairs, of which every other one begins with B (ABBA). `runs` is even."""
    logs = []
    for pair in range(runs):
        if pair % 2 == 0:
            a_s = a()
            b_s = b()
        else:
            b_s = b()
            a_s = a()
        logs.append(math.log(b_s / a_s))
    return math.exp(statistics.fmean(logs))
