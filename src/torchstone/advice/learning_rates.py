"""The best learning rate among those tried: the lowest loss over equal items, and what cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.advice.trainings import Training, Trainings, alike_but_for, lowest
from torchstone.stats.correlated import FEWEST, mean, paired_means
from torchstone.stats.stability import Behaviour
from torchstone.terms.axis import Scalar

AXIS = "learning_rate"
_LEVEL = 0.05
_QUARTER = 4


class LearningRates(msgspec.Struct, frozen=True):
    """What the learning rates of otherwise equal trainings say. `where`: their other axes that vary.

    `best`: None where no loss falls beyond its noise. `as_good`: cannot be told from it on the same batches; another
    seed is not in that. `try_next`: beyond the best, where it is the last that was tried on its side.
    """

    where: Mapping[str, Scalar]
    tried: tuple[float, ...]
    best: float | None
    case_id: str | None = None
    as_good: tuple[float, ...] = ()
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
        return LearningRates(where, tried, None, unsteady=unsteady)
    others = [one for one in alike if one is not best and one.steady]
    level = 1.0 - _LEVEL / max(1, len(others))  # the lowest of several is compared with each of the others
    same = [one for one in others if not _apart(losses[best.case_id], losses[one.case_id], level)]
    as_good = tuple(sorted(map(_of, same)))
    return LearningRates(where, tried, _of(best), best.case_id, as_good, unsteady, _beyond(_of(best), as_good, tried))


def _of(training: Training) -> float:
    return float(training.point[AXIS] or 0.0)


def _apart(a: Sequence[float], b: Sequence[float], level: float) -> bool:
    """Return whether the last quarters of two trainings on the same batches differ beyond what their steps vary."""
    last = min(len(a) // 2, max(2 * FEWEST, len(a) // _QUARTER))
    known = mean(paired_means(a[-last:], b[-last:])) if last else None
    if known is None:
        return False
    low, high = known.interval(level)
    return low > 0.0 or high < 0.0


def _beyond(best: float, as_good: Sequence[float], tried: Sequence[float]) -> float | None:
    if best == tried[-1] and best > 0.0:
        return 3.0 * best
    if best == tried[0] and best > 0.0 and not as_good:
        return best / 3.0
    return None
