"""Trials with the evidence that a machine gives: counters read every 0.1 s in their windows, as the kernel counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchstone.core.schema.trial import Series

PERIOD_S = 0.1
Span = tuple[float, float]


def overlap(spans: Sequence[Span], begin_s: float, end_s: float) -> float:
    """Return how much of the time between two moments lies in the spans."""
    return math.fsum(max(0.0, min(end, end_s) - max(begin, begin_s)) for begin, end in spans)


def counter(metric: str, at_s: Sequence[float], total: Callable[[float], float]) -> Series:
    """Return what a counter says that has risen to `total` at each moment."""
    return Series(metric, "made", tuple(at_s), tuple(total(at) for at in at_s))


def moments(begin_s: float, end_s: float) -> list[float]:
    """Return when gauges are read for a window: before it, at its edges, every 0.1 s in it, and after it."""
    inner = [begin_s + number * PERIOD_S for number in range(1, math.ceil((end_s - begin_s) / PERIOD_S))]
    return [0.0, begin_s, *(at for at in inner if at < end_s - 1e-9), end_s, end_s + 0.5]
