"""How fast a loss falls, where it ends, and when it reaches a target. Losses: one a step, in order, any unit.

The rate of convergence is the slope of ln(loss) over the steps: -0.01 is a fall by 1 % a step, whatever the loss's
scale, and a loss whose distance to 0 shrinks by a constant factor has one rate throughout (linear convergence: Nocedal
& Wright, Numerical Optimization, 2nd ed. 2006, §A.2). Real curves bend; theirs is the mean slope, and the bend is no
noise. It is fitted by least squares to medians of blocks: they do away with single spikes, as Theil-Sen would,
and leave few enough points to tell how much they resemble each other, which Theil-Sen's interval cannot allow for.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean, median
from typing import NamedTuple

from torchstone.core.stats.correlated import CYCLE, Coefficient, block_medians, mean, paired_means, slope
from torchstone.core.stats.interval import Interval
from torchstone.core.stats.quantile import quantile

# Stability of a training: whether its loss falls, stays, diverges or becomes NaN; and its spikes.
#
# Losses: one a step, in order, any unit. How often each alarm is false, and how often it comes when it should, is
# simulated in tests/statistics/test_stability.py.

FEWEST_STEPS = 40  # steps: under these nothing can be called a divergence or a spike, or flat
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
    if way is None or (way == 0 and len(losses) < FEWEST_STEPS):  # the interval of so few holds a steep fall, too
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
    if n < FEWEST_STEPS or not all(map(math.isfinite, losses)):
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
    if n < FEWEST_STEPS or not all(map(math.isfinite, losses)):
        return ()
    began = start(losses)
    logs = began > 0.0 and min(losses) >= 0.0
    values = [math.log(max(loss, LEARNED * began)) for loss in losses] if logs else list(losses)
    level = _running_medians(values)
    above = [value - middle for value, middle in zip(values, level, strict=True)]
    usual = _MAD * median(map(abs, above))
    least = math.log(_MATTERS * began) if logs else -math.inf
    found = [
        i
        for i in range(settling(n), n)
        if above[i] > max(_FACTOR if logs else 0.5 * abs(level[i]), _DEVIATIONS * usual)
        and values[i] > least
        and above[i] > _DEVIATIONS * _spread_around(values, i)
    ]
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


# Equivalence of two losses within a margin, shown by a test of equivalence, not by a non-significant difference.
#
# Two one-sided tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987; Lakens, Social
# Psychological and Personality Science 8(4), 2017, from whom the three verdicts are).
#
# The unit is a block of steps of two trainings that differ in one setting, and have seed and order of data in common:
# losses are compared on the same batches. Steps are no units, since neighbours resemble each other, and what of this is
# left between blocks is allowed for. Blocks of one training speak for that training: that another seed would say the
# same takes trainings with other seeds.

MARGIN = 0.01  # of the loss
ALPHA = 0.05  # how often what differs by the margin is called equivalent, and what is equal is called different


class Sameness(StrEnum):
    """What two one-sided tests and a test against 0 say together."""

    EQUIVALENT = "equivalent"  # the difference lies within the margin, whether it is 0 or not
    DIFFERENT = "different"  # it is not 0, and not shown to lie within the margin
    UNCLEAR = "unclear"


class EquivalenceTest(NamedTuple):
    """The mean difference, the ends of its 90 % interval and the margin (units of the values); how many units."""

    difference: float
    low: float
    high: float
    margin: float
    verdict: Sameness
    units: int


def tost(differences: Sequence[float], margin: float) -> EquivalenceTest | None:
    """Return whether the mean of paired differences (in order) lies within ±margin; None under 6 units."""
    known = mean(differences)
    if known is None:
        return None
    low, high = known.interval(1.0 - 2.0 * ALPHA)
    verdict = Sameness.UNCLEAR
    if -margin < low and high < margin:
        verdict = Sameness.EQUIVALENT
    else:
        wide_low, wide_high = known.interval(1.0 - ALPHA)
        if wide_low > 0.0 or wide_high < 0.0:
            verdict = Sameness.DIFFERENT
    return EquivalenceTest(known.value, low, high, margin, verdict, len(differences))


def of_losses(losses: Sequence[float], reference: Sequence[float], share: float = MARGIN) -> EquivalenceTest | None:
    """Return whether two trainings over the same items in the same order have the same loss, in its unit.

    Compared is the second half, where they have had time to part; the margin is `share` of the mean loss of the whole
    reference, so that what both have learned by heart, near 0, counts as the same. None where a half is under 12 steps,
    or a loss is not finite.
    """
    if not all(map(math.isfinite, (*losses, *reference))):
        return None
    halves = [one[len(one) // 2 :] for one in (losses, reference)]
    differences = paired_means(*halves)
    return tost(differences, share * abs(fmean(reference))) if differences else None


FEWEST = 8  # losses behind a rate
LEARNED = 1e-3  # of where it began: below lies what was learned by heart, and the noise there is that of rounding
_SETTLING = 10  # first steps, or a tenth of fewer: an optimizer's moments are empty, a new head is far off
_LAST = 10  # the last tenth is where a training ends ...
_FEWEST_LAST = 2 * CYCLE  # ... of at least so many steps, and at most half


class DecayRate(NamedTuple):
    """The slope of ln(loss) a step, negative where it falls, its interval, and how many steps were used."""

    value: float
    low: float
    high: float
    steps: int


def rate(losses: Sequence[float]) -> DecayRate | None:
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
    low, high = known.interval(0.95)
    return DecayRate(known.value / size, low / size, high / size, len(part))


def direction(losses: Sequence[float]) -> int | None:
    """Return -1 where the loss falls, 1 where it rises, 0 where neither can be told; None under 8 steps, and of NaN.

    By the interval of the slope of ln(loss) (of the loss itself where it falls below 0). What fell within the first few
    steps and then stayed has fallen too: the first four losses lie above nine tenths of the last eighth.
    """
    if len(losses) < FEWEST or not all(map(math.isfinite, losses)):
        return None
    if (found := rate(losses)) is not None:
        low, high = found.low, found.high
    else:
        known, _ = _trend(losses[settling(len(losses)) :])
        low, high = known.interval(0.95) if known is not None else (0.0, 0.0)
    if low <= 0.0 <= high:
        last = losses[-max(_FEWEST_LAST, len(losses) // 8) :]
        return -1 if is_learned(losses) or min(losses[:CYCLE]) > quantile(last, 0.9) else 0
    return -1 if high < 0.0 else 1


def ending(losses: Sequence[float]) -> Interval | None:
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
    low, high = known.interval(0.95) if known is not None else (None, None)
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


def _trend(values: Sequence[float]) -> tuple[Coefficient | None, int]:
    levels, size = block_medians(values)
    return slope(levels), size
