"""The best learning rate among those tried: the lowest loss over equal items, what is as good, what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from torchstone.analysis.advice.trainings import Span, Training, Trainings, alike_but_for, lowest
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.convergence import MARGIN, Behaviour, Sameness
from torchstone.core.stats.correlated import FEWEST, mean, paired_means

AXIS = "learning_rate"
_LEVEL = 0.05
_QUARTER = 4
_MORE = 4  # times the steps, where there were too few
_LEAST_DF = 2.0  # with one degree of freedom an interval is 13 standard errors wide: nothing is known


class LearningRates(msgspec.Struct, frozen=True):
    """What the learning rates of otherwise equal trainings say. `where`: their other axes that vary.

    `best`: the lowest loss; None where none falls beyond its noise, or where the steps are too few to tell. `as_good`:
    the same within 1 % on the same batches, which is shown, not concluded from a difference that was not found; another
    seed is not in that. `cannot_tell`: neither worse nor as good can be said; `more_steps`: so many would tell, where
    there were too few for an interval. `try_next`: beyond the best, where it is the last that was tried on its side.
    """

    where: Mapping[str, Scalar]
    tried: tuple[float, ...]
    best: float | None
    case_id: str | None = None
    as_good: tuple[float, ...] = ()
    cannot_tell: tuple[float, ...] = ()
    more_steps: int | None = None
    unsteady: tuple[float, ...] = ()
    try_next: float | None = None


def learning_rates(trainings: Trainings) -> tuple[LearningRates, ...]:
    """Return a reading of each group of trainings that differ in the learning rate alone."""
    return tuple(_reading(alike, trainings.losses) for alike in alike_but_for((AXIS,), trainings.each))


def _reading(alike: Sequence[Training], losses: Mapping[str, Sequence[float]]) -> LearningRates:
    tried = tuple(sorted(_of(one) for one in alike))
    unsteady = tuple(sorted(_of(one) for one in alike if one.broke))
    where = {axis: value for axis, value in alike[0].point.items() if axis != AXIS}
    best = lowest(alike)
    if best is None or not any(one.behaviour == Behaviour.FALLING for one in alike):
        few = [one.steps for one in alike if one.behaviour == Behaviour.SHORT]
        return LearningRates(where, tried, None, more_steps=_MORE * max(few) if few else None, unsteady=unsteady)
    others = [one for one in alike if one is not best and one.steady]
    level = 1.0 - _LEVEL / max(1, len(others))  # the lowest of several is compared with each of the others
    told = {_of(one): _told(best, one, losses, level) for one in others}
    as_good = tuple(sorted(rate for rate, found in told.items() if found.sameness == Sameness.EQUIVALENT))
    unclear = tuple(sorted(rate for rate, found in told.items() if found.sameness == Sameness.UNCLEAR))
    short = any(told[rate].too_few_steps for rate in unclear)
    return LearningRates(
        where, tried, _of(best), best.case_id, as_good, unclear, _MORE * best.steps if short else None, unsteady,
        _beyond(_of(best), (*as_good, *unclear), tried),
    )  # fmt: skip


def _of(training: Training) -> float:
    return float(training.point[AXIS] or 0.0)


class _Told(NamedTuple):
    sameness: Sameness
    too_few_steps: bool = False


def _told(best: Training, other: Training, losses: Mapping[str, Sequence[float]], level: float) -> _Told:
    """Return what the last quarters of two trainings on the same batches tell, beyond what their steps vary.

    The margin is a share of the mean loss of the whole best training: near 0 all is the same. Losses whose own
    intervals do not meet are different, however few pairs there are.
    """
    a, b = losses[best.case_id], losses[other.case_id]
    if _disjoint(best.loss_end, other.loss_end):
        return _Told(Sameness.DIFFERENT)
    last = min(len(a) // 2, max(2 * FEWEST, len(a) // _QUARTER))
    known = mean(paired_means(a[-last:], b[-last:])) if last else None
    if known is None:
        return _Told(Sameness.UNCLEAR, too_few_steps=True)
    low, high = known.interval(level)
    margin = MARGIN * abs(fmean(a))
    if low > 0.0 or high < 0.0:
        return _Told(Sameness.DIFFERENT)
    if -margin < low and high < margin:
        return _Told(Sameness.EQUIVALENT)
    return _Told(Sameness.UNCLEAR, known.df < _LEAST_DF)


def _disjoint(low: Span | None, high: Span | None) -> bool:
    if low is None or high is None or low.high is None or high.low is None:
        return False
    return low.high < high.low


def _beyond(best: float, perhaps: Sequence[float], tried: Sequence[float]) -> float | None:
    if best == tried[-1] and best > 0.0:
        return 3.0 * best
    if best == tried[0] and best > 0.0 and not perhaps:
        return best / 3.0
    return None
