"""Trials with the evidence that a machine gives: counters read every 0.1 s in their windows, as the kernel counts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

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


class Burst(NamedTuple):
    """Others hold so many cores from here to there, and a step takes so many times as long."""

    begin_s: float
    end_s: float
    slow: float

    @property
    def held(self) -> float:
        return 0.5 + 0.5 * math.log10(self.slow)


class Busy(NamedTuple):
    """A machine on which bursts of random length come at random. `share`: of the time; 0: nobody else is there."""

    share: float
    mean_s: float

    def bursts(self, until_s: float, dice: random.Random) -> list[Burst]:
        found: list[Burst] = []
        at_s = 0.0
        on = dice.random() < self.share  # a trial begins at any moment
        while self.share and at_s < until_s:
            if not on:
                at_s += dice.expovariate(self.share / (1.0 - self.share) / self.mean_s)
            length_s = dice.expovariate(1.0 / self.mean_s)
            found.append(Burst(at_s, at_s + length_s, 2.0 * 5.0 ** dice.random()))
            at_s, on = at_s + length_s, False
        return found


def lap(begin_s: float, work_s: float, bursts: Sequence[Burst]) -> float:
    """Return how long work takes that begins here."""
    at_s = begin_s
    for burst in bursts:
        if burst.end_s <= at_s:
            continue
        if at_s + work_s <= burst.begin_s:
            break
        quiet_s = max(0.0, burst.begin_s - at_s)
        work_s, at_s = work_s - quiet_s, at_s + quiet_s
        inside_s = min(work_s * burst.slow, burst.end_s - at_s)
        work_s, at_s = work_s - inside_s / burst.slow, at_s + inside_s
        if work_s <= 1e-12:
            return at_s - begin_s
    return at_s + work_s - begin_s
