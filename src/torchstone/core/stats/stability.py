"""Stability of a training: whether its loss falls, stays, diverges or becomes NaN; and its spikes.

Losses: one a step, in order, any unit. How often each alarm is false, and how often it comes when it should, is
simulated in tests/statistics/test_stability.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from torchstone.core.stats.convergence import LEARNED, direction, settling, start
from torchstone.core.stats.correlated import CYCLE
from torchstone.core.stats.quantile import quantile

FEWEST = 40  # steps: under these nothing can be called a divergence or a spike, or flat
_MAD = 1.4826  # median absolute deviations of a normal distribution in its standard deviation
_WINDOW = 8  # a divergence is judged by the last eighth of the steps, of at least 10
_RISE = 1.5  # times the lowest level
_FIRST_DEVIATIONS = 7.0  # of the noise at the end, above a single loss
_LOST = 0.5  # of what had been learned
_NEIGHBOURS = 12  # steps on either side
_DEVIATIONS = 10.0  # of the noise around: a spike
_FACTOR = math.log(1.5)  # and so many times the level around
_MATTERS = 0.1  # of where it began: what leaps below it spoils nothing


class Behaviour(StrEnum):
    """What the loss of one training does over its steps."""

    FALLING = "falling"
    FLAT = "flat"  # neither a fall nor a rise is significant: no learning was seen
    RISING = "rising"
    DIVERGED = "diverged"
    NOT_FINITE = "not finite"
    SHORT = "too short"


UNSTABLE = (Behaviour.RISING, Behaviour.DIVERGED, Behaviour.NOT_FINITE)


def behaviour(losses: Sequence[float]) -> Behaviour:
    """Return what the loss does: the worst of what can be said."""
    if not all(map(math.isfinite, losses)):
        return Behaviour.NOT_FINITE
    if has_diverged(losses):
        return Behaviour.DIVERGED
    way = direction(losses)
    if way is None or (way == 0 and len(losses) < FEWEST):  # the interval of so few holds a steep fall, too
        return Behaviour.SHORT
    return (Behaviour.FLAT, Behaviour.RISING, Behaviour.FALLING)[way]


def has_diverged(losses: Sequence[float]) -> bool:
    """Return whether the loss left its lowest level and did not come back. False under 40 steps, and of NaN.

    The last eighth lies above the lowest level before it (of the first four steps, or of a window as long): nine tenths
    of the one above nine tenths of the other, the median by half of the level and by half of what had been learned.
    Noise that comes and goes does not part the two so far, and what was learned by heart may flicker. Or the last
    quarter lies above the first loss of all, by half and by 7 robust standard deviations: its first step was too long.
    """
    n = len(losses)
    if n < FEWEST or not all(map(math.isfinite, losses)):
        return False
    width = max(10, n // _WINDOW)
    end = losses[-width:]
    level, began, least = median(end), start(losses), quantile(end, 0.1)
    before = [losses[i : i + width] for i in range(0, n - 2 * width + 1, width // 2)]
    lowest = min(before, key=lambda part: quantile(part, 0.9))
    bottom = min(began, median(lowest))
    if level - bottom < _LOST * (began - bottom):
        return False
    return _left_at_once(losses[0], losses[-(n // 4) :]) or any(
        least > quantile(part, 0.9) and level - median(part) >= (_RISE - 1.0) * abs(median(part))
        for part in (losses[:CYCLE], lowest)
    )


def _left_at_once(first: float, end: Sequence[float]) -> bool:
    logs = first > 0.0 and min(end) > 0.0
    values = [math.log(loss / first) for loss in end] if logs else [loss - first for loss in end]
    above = median(values)
    noise = _MAD * median(abs(value - above) for value in values)
    return above > _FIRST_DEVIATIONS * noise and above > (math.log(_RISE) if logs else (_RISE - 1.0) * abs(first))


def spikes(losses: Sequence[float]) -> tuple[int, ...]:
    """Return the steps (from 0) at which a spike begins; none under 40 steps, among the first few, and of NaN.

    A loss 10 robust standard deviations above the median of the 12 steps on either side (Hampel's identifier: Davies &
    Gather, JASA 88(423), 1993), and half as much again. The deviation is the larger of that of the neighbours and that
    of all steps around their medians; logarithms, since the noise of a loss grows with it.
    """
    n = len(losses)
    if n < FEWEST or not all(map(math.isfinite, losses)):
        return ()
    began = start(losses)
    logs = began > 0.0 and min(losses) >= 0.0
    values = [math.log(max(loss, LEARNED * began)) for loss in losses] if logs else list(losses)
    level = _running_medians(values)
    above = [value - middle for value, middle in zip(values, level, strict=True)]
    usual = _MAD * median(map(abs, above))
    least = math.log(_MATTERS * began) if logs else -math.inf
    found = [
        i for i in range(settling(n), n)
        if above[i] > max(_FACTOR if logs else 0.5 * abs(level[i]), _DEVIATIONS * usual) and values[i] > least
        and above[i] > _DEVIATIONS * _spread_around(values, i)
    ]  # fmt: skip
    return tuple(step for place, step in enumerate(found) if place == 0 or step - found[place - 1] > 2)


def _running_medians(values: Sequence[float]) -> list[float]:
    """Return the median of each value and its neighbours on either side. O(n)."""
    near, medians = sorted(values[:_NEIGHBOURS]), []
    for place in range(len(values)):
        if place + _NEIGHBOURS < len(values):
            insort(near, values[place + _NEIGHBOURS])
        if place > _NEIGHBOURS:
            del near[bisect_left(near, values[place - _NEIGHBOURS - 1])]
        half = len(near) // 2
        medians.append(near[half] if len(near) % 2 else (near[half - 1] + near[half]) / 2.0)
    return medians


def _spread_around(values: Sequence[float], at: int) -> float:
    """Return the robust standard deviation of the neighbours of a step, itself left out."""
    near = [*values[max(0, at - _NEIGHBOURS) : at], *values[at + 1 : at + 1 + _NEIGHBOURS]]
    middle = median(near)
    return _MAD * median(abs(value - middle) for value in near)
