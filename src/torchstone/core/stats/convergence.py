"""How fast a loss falls, where it ends, and when it reaches a target. Losses: one a step, in order, any unit.

The rate of convergence is the slope of ln(loss) over the steps: -0.01 is a fall by 1 % a step, whatever the loss's
scale, and a loss whose distance to 0 shrinks by a constant factor has one rate throughout (linear convergence: Nocedal
& Wright, Numerical Optimization, 2nd ed. 2006, §A.2). Real curves bend; theirs is the mean slope, and the bend is no
noise. It is fitted by least squares to medians of blocks: they do away with single spikes, as Theil-Sen would,
and leave few enough points to tell how much they resemble each other, which Theil-Sen's interval cannot allow for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from torchstone.core.stats.correlated import CYCLE, Known, block_medians, mean, slope
from torchstone.core.stats.interval import Interval
from torchstone.core.stats.quantile import quantile

FEWEST = 8  # losses behind a rate
LEARNED = 1e-3  # of where it began: below lies what was learned by heart, and the noise there is that of rounding
_SETTLING = 10  # first steps, or a tenth of fewer: an optimizer's moments are empty, a new head is far off
_LAST = 10  # the last tenth is where a training ends ...
_FEWEST_LAST = 2 * CYCLE  # ... of at least so many steps, and at most half


class Rate(NamedTuple):
    """The slope of ln(loss) a step, negative where it falls, its interval, and how many steps were used."""

    value: float
    low: float
    high: float
    steps: int


def rate(losses: Sequence[float], level: float = 0.95) -> Rate | None:
    """Return the rate of convergence a step, over the steps after the first few until a thousandth of the start.

    None under 8 such steps, and of losses that are not finite or fall below 0, which have no logarithm. Coverage of the
    interval, simulated on losses whose noise resembles its neighbours: tests/statistics/test_convergence.py.
    """
    part = _learning(losses)
    if part is None or len(part) < FEWEST or min(losses) < 0.0:
        return None
    known, size = _trend([math.log(loss) for loss in part])
    if known is None:
        return None
    low, high = known.interval(level)
    return Rate(known.value / size, low / size, high / size, len(part))


def direction(losses: Sequence[float], level: float = 0.95) -> int | None:
    """Return -1 where the loss falls, 1 where it rises, 0 where neither can be told; None under 8 steps, and of NaN.

    By the interval of the slope of ln(loss) (of the loss itself where it falls below 0). What fell within the first few
    steps and then stayed has fallen too: the first four losses lie above nine tenths of the last eighth.
    """
    if len(losses) < FEWEST or not all(map(math.isfinite, losses)):
        return None
    if (found := rate(losses, level)) is not None:
        low, high = found.low, found.high
    else:
        known, _ = _trend(losses[settling(len(losses)) :])
        low, high = known.interval(level) if known is not None else (0.0, 0.0)
    if low <= 0.0 <= high:
        last = losses[-max(_FEWEST_LAST, len(losses) // 8) :]
        return -1 if is_learned(losses) or min(losses[:CYCLE]) > quantile(last, 0.9) else 0
    return -1 if high < 0.0 else 1


def ending(losses: Sequence[float], level: float = 0.95) -> Interval | None:
    """Return the mean loss of the last tenth of the steps (at least 8, at most half) with its interval over steps.

    It says how far this one training came; where another seed would come to is not in it. None where there is no loss,
    or one of these is not finite.
    """
    n = len(losses)
    last = losses[-max(1, min(n // 2, max(_FEWEST_LAST, n // _LAST))) :]
    if not last or not all(map(math.isfinite, last)):
        return None
    how = f"mean of the last {len(last)} steps"
    known = mean(last)
    low, high = known.interval(level) if known is not None else (None, None)
    return Interval(fmean(last), low, high, how)


def steps_to(losses: Sequence[float], target: float) -> int | None:
    """Return how many steps it took until the mean of the newest 4 losses was at or below `target`; None: never."""
    for end in range(CYCLE, len(losses) + 1):
        if fmean(losses[end - CYCLE : end]) <= target:
            return end
    return None


def start(losses: Sequence[float]) -> float:
    """Return where a training began: the median of the first 4 losses, or the first of all if it is under half of that.

    That one is of the model as it was: too long a step may throw the second up by orders. Raises StatisticsError where
    there is no loss.
    """
    first, several = losses[0] if losses else 0.0, median(losses[:CYCLE])
    return first if first < several / 2.0 else several


def is_learned(losses: Sequence[float]) -> bool:
    """Return whether a loss that began above 0 has fallen to a thousandth of where it began."""
    began = start(losses)
    return began > 0.0 and _learned_at(losses, LEARNED * began) is not None


def settling(steps: int) -> int:
    """Return how many of the first steps are left out of a slope."""
    return min(_SETTLING, steps // _SETTLING)


def _learning(losses: Sequence[float]) -> list[float] | None:
    """Return the steps after the first few and before the loss is learned; None if it is not finite or not above 0."""
    if not losses or not all(map(math.isfinite, losses)) or start(losses) <= 0.0:
        return None
    floor = LEARNED * start(losses)
    end = _learned_at(losses, floor)
    part = losses[:end]
    return [max(loss, floor) for loss in part[settling(len(part)) :]]


def _learned_at(losses: Sequence[float], floor: float) -> int | None:
    if min(losses) > floor:
        return None
    ends = range(CYCLE, len(losses) + 1)
    return next((end for end in ends if median(losses[end - CYCLE : end]) <= floor), None)


def _trend(values: Sequence[float]) -> tuple[Known | None, int]:
    levels, size = block_medians(values)
    return slope(levels), size
