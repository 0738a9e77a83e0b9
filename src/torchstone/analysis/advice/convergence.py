"""What the losses of a run say: of learning rate, optimizer, accumulation and precision, all else equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from torchstone.analysis.advice.devices import PrecisionEffect, precisions
from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.advice.trainings import (
    LOSS_AXES,
    Curves,
    Span,
    Trainings,
    TrainingSummary,
    alike_but_for,
    compared,
    lowest,
    trainings_of,
)
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.convergence import MARGIN, Behaviour, Sameness
from torchstone.core.stats.correlated import FEWEST, mean, paired_means

_OPTIMIZER = "optimizer"


class OptimizerResult(msgspec.Struct, frozen=True):
    """One optimizer. `learning_rate`: the one of those tried at which its loss ended lowest."""

    optimizer: str
    learning_rate: Scalar
    case_id: str
    behaviour: Behaviour
    throughput: float | None
    memory_bytes: float | None
    loss_end: Span | None


class Optimizers(msgspec.Struct, frozen=True):
    """Otherwise equal trainings, one an optimizer, the lowest loss first. `tuned`: each had several learning rates."""

    where: Mapping[str, Scalar]
    standings: tuple[OptimizerResult, ...]
    tuned: bool


def optimizers(trainings: Trainings, cases: Mapping[str, CaseSummary]) -> tuple[Optimizers, ...]:
    """Return a reading of each group of trainings that differ in optimizer and learning rate alone."""
    groups = alike_but_for((_OPTIMIZER, "learning_rate"), trainings.each)
    return tuple(
        _compared_optimizers(alike, cases) for alike in groups if len({one.point.get(_OPTIMIZER) for one in alike}) > 1
    )


def _compared_optimizers(alike: Sequence[TrainingSummary], cases: Mapping[str, CaseSummary]) -> Optimizers:
    each: dict[str, list[TrainingSummary]] = {}
    for one in alike:
        each.setdefault(str(one.point[_OPTIMIZER]), []).append(one)
    standings = [_optimizer_result(name, lowest(those) or those[0], cases) for name, those in each.items()]
    standings.sort(key=lambda one: one.loss_end.value if one.loss_end is not None else float("inf"))
    where = {axis: value for axis, value in alike[0].point.items() if axis not in (_OPTIMIZER, "learning_rate")}
    return Optimizers(where, tuple(standings), all(len(those) > 1 for those in each.values()))


def _optimizer_result(name: str, best: TrainingSummary, cases: Mapping[str, CaseSummary]) -> OptimizerResult:
    case = cases[best.case_id]
    speed = case.estimates.get("throughput")
    return OptimizerResult(
        name,
        case.configuration.get("learning_rate"),
        best.case_id,
        best.behaviour,
        speed.value if speed is not None else None,
        case.peak_memory_bytes,
        best.loss_end,
    )


_RATE = "learning_rate"
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
    return tuple(_best_rate(alike, trainings.losses) for alike in alike_but_for((_RATE,), trainings.each))


def _best_rate(alike: Sequence[TrainingSummary], losses: Mapping[str, Sequence[float]]) -> LearningRates:
    tried = tuple(sorted(_of(one) for one in alike))
    unsteady = tuple(sorted(_of(one) for one in alike if one.broke))
    where = {axis: value for axis, value in alike[0].point.items() if axis != _RATE}
    best = lowest(alike)
    if best is None or not any(one.behaviour == Behaviour.FALLING for one in alike):
        few = [one.steps for one in alike if one.behaviour == Behaviour.SHORT]
        return LearningRates(where, tried, None, more_steps=_MORE * max(few) if few else None, unsteady=unsteady)
    others = [one for one in alike if one is not best and one.steady]
    level = 1.0 - _LEVEL / max(1, len(others))  # the lowest of several is compared with each of the others
    matches = {_of(one): _match(best, one, losses, level) for one in others}
    as_good = tuple(sorted(rate for rate, found in matches.items() if found.sameness == Sameness.EQUIVALENT))
    unclear = tuple(sorted(rate for rate, found in matches.items() if found.sameness == Sameness.UNCLEAR))
    short = any(matches[rate].too_few_steps for rate in unclear)
    return LearningRates(
        where,
        tried,
        _of(best),
        best.case_id,
        as_good,
        unclear,
        _MORE * best.steps if short else None,
        unsteady,
        _beyond(_of(best), (*as_good, *unclear), tried),
    )


def _of(training: TrainingSummary) -> float:
    return float(training.point[_RATE] or 0.0)


class _Match(NamedTuple):
    sameness: Sameness
    too_few_steps: bool = False


def _match(
    best: TrainingSummary, other: TrainingSummary, losses: Mapping[str, Sequence[float]], level: float
) -> _Match:
    """Return what the last quarters of two trainings on the same batches tell, beyond what their steps vary.

    The margin is a share of the mean loss of the whole best training: near 0 all is the same. Losses whose own
    intervals do not meet are different, however few pairs there are.
    """
    a, b = losses[best.case_id], losses[other.case_id]
    if _disjoint(best.loss_end, other.loss_end):
        return _Match(Sameness.DIFFERENT)
    last = min(len(a) // 2, max(2 * FEWEST, len(a) // _QUARTER))
    difference = mean(paired_means(a[-last:], b[-last:])) if last else None
    if difference is None:
        return _Match(Sameness.UNCLEAR, too_few_steps=True)
    low, high = difference.interval(level)
    margin = MARGIN * abs(fmean(a))
    if low > 0.0 or high < 0.0:
        return _Match(Sameness.DIFFERENT)
    if -margin < low and high < margin:
        return _Match(Sameness.EQUIVALENT)
    return _Match(Sameness.UNCLEAR, difference.df < _LEAST_DF)


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


class Convergence(msgspec.Struct, frozen=True):
    """The trainings of one model on one device that differ in these four axes alone, over the same number of items.

    `where`: the other axes that vary in the run, and their values here; `notes`: what these losses cannot say.
    """

    model: str
    device: str
    data: str
    item: str
    batch_size: Scalar
    where: Mapping[str, Scalar]
    horizon_items: float
    target_loss: float | None
    trainings: tuple[TrainingSummary, ...]
    learning_rates: tuple[LearningRates, ...]
    optimizers: tuple[Optimizers, ...]
    precisions: tuple[PrecisionEffect, ...]
    notes: tuple[Statement, ...]


def convergence(run: RunSummary, curves: Curves) -> list[Convergence]:
    """Return a reading of each group of comparable trainings. `curves`: advice.loss_curves."""
    found = []
    groups = compared(run)
    for cases in groups:
        together = trainings_of(cases, curves)
        if together is None:
            continue
        first, by_id = (cases[0], {case.case_id: case for case in cases})
        found.append(
            Convergence(
                model=first.workload.model,
                device=str(first.placement),
                data=first.workload.data,
                item=first.workload.item,
                batch_size=first.configuration.get("batch_size"),
                where=_where(first, [group[0] for group in groups]),
                horizon_items=together.horizon,
                target_loss=together.target,
                trainings=together.each,
                learning_rates=learning_rates(together),
                optimizers=optimizers(together, by_id),
                precisions=precisions(together, by_id),
                notes=tuple(_notes(first)),
            )
        )
    return found


def _where(case: CaseSummary, others: Sequence[CaseSummary]) -> Mapping[str, Scalar]:
    """Return what tells a group from the others, but for its batch size. `others`: a case of each group."""
    alike = [one for one in others if (one.workload, one.placement) == (case.workload, case.placement)]
    names = [name for name in varying_axes(alike) if name not in ("batch_size", *LOSS_AXES)]
    return {name: case.configuration[name] for name in names if name in case.configuration}


def _notes(case: CaseSummary) -> Iterator[Statement]:
    if case.configuration.get("feed") == "resident":
        yield Statement("resident_data")
    elif case.workload.data.partition(":")[0] == "synthetic":
        yield Statement("synthetic_data")
    yield Statement("one_seed")
