"""Trainings beside each other: over the items that all of them saw, how fast each loss fell and where it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from torchstone.analysis.advice.grouping import equal_but_for, groups
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import loss_curve, raw
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial, estimation_trials
from torchstone.core.stats.convergence import UNSTABLE, Behaviour, behaviour, ending, rate, spikes, start, steps_to
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import RecordPart

METRICS = frozenset(("loss", "items", "step_time_s"))  # what a Curve is made of
LOSS_AXES = ("learning_rate", "optimizer", "grad_accumulation", "precision")  # whose effect on the loss is asked for


class LossCurve(msgspec.Struct, frozen=True):
    """The losses of the first steps of one trial, in order, and how many items a step worked on."""

    losses: tuple[float, ...]
    items: float


Curves = Mapping[str, tuple[LossCurve, ...]]  # by case_id: one a trial; all trials of a Case repeat one training


def compared(run: RunSummary) -> list[list[CaseSummary]]:
    """Return the trainings that differ in LOSS_AXES alone, together: two or more."""
    trained = [group for group in groups(run.cases) if group[0].workload.task == Task.TRAIN]
    return [alike for group in trained for alike in equal_but_for(LOSS_AXES, group) if len(alike) > 1]


def read_curves(run: RunSummary) -> Curves:
    """Return the losses of a stored run where there is something to compare, else nothing: its record is not read.

    Raises UsageError if the record cannot be read.
    """
    cases = compared_cases(run)
    return curves_of(read_run(Path(run.record), RecordPart(frozenset(), cases, METRICS))) if cases else {}


def compared_cases(run: RunSummary) -> frozenset[str]:
    """Return the case_ids of all trainings that can be compared."""
    return frozenset(case.case_id for group in compared(run) for case in group)


def curves_of(run: Run) -> Curves:
    """Return the losses of every Case that has some, of failed trials too: a loss that became NaN is one of them."""
    found: dict[str, list[LossCurve]] = {}
    taken: dict[str, list[Trial]] = {case.case_id: [] for case in run.head.plan.cases}
    for trial in run.trials:  # in one pass: an imported run may have 100,000
        taken.setdefault(trial.case_id, []).append(trial)
    for case_id, trials in taken.items():
        for trial in estimation_trials(trials):
            losses, items = loss_curve(trial), raw(trial, "items")
            if losses and items and sum(items) > 0.0:
                found.setdefault(case_id, []).append(LossCurve(losses, fmean(items)))
    return {case_id: tuple(curves) for case_id, curves in found.items()}


_WORST_FIRST = (*reversed(UNSTABLE), Behaviour.SHORT, Behaviour.FLAT, Behaviour.FALLING)


class Span(msgspec.Struct, frozen=True):
    """A value with the ends of its 95 % interval, over the steps of one training; None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


class TrainingSummary(msgspec.Struct, frozen=True):
    """What the loss of one Case did. `point`: its values of the axes that vary; `steps`: all that were kept.

    Rates and the end are those of the first items, which all compared trainings saw; behaviour and spikes are of all
    steps. `items_to_target`, `time_to_target_s`: until the loss that each steady one of them reached.
    """

    case_id: str
    point: Mapping[str, Scalar]
    behaviour: Behaviour
    spikes: int
    steps: int
    loss_start: float
    loss_end: Span | None = None
    rate_per_step: Span | None = None
    rate_per_1000_items: Span | None = None
    items_to_target: float | None = None
    time_to_target_s: float | None = None

    @property
    def steady(self) -> bool:
        """Whether it may be recommended."""
        return not self.broke and self.loss_end is not None

    @property
    def broke(self) -> bool:
        """Whether its loss rises, diverged or is no number."""
        return self.behaviour in UNSTABLE


class Trainings(msgspec.Struct, frozen=True):
    """Trainings that differ in LOSS_AXES alone. `losses`: of each, by case_id, over the first `horizon` items."""

    each: tuple[TrainingSummary, ...]
    horizon: float
    target: float | None
    losses: Mapping[str, Sequence[float]]


def trainings_of(cases: Sequence[CaseSummary], curves: Curves) -> Trainings | None:
    """Return the trainings that have losses, in the order of `cases`; None where fewer than two do."""
    having = [case for case in cases if case.case_id in curves]
    if len(having) < 2:
        return None
    longest = {case.case_id: max(curves[case.case_id], key=lambda curve: len(curve.losses)) for case in having}
    finite = [curve for curve in longest.values() if all(map(math.isfinite, curve.losses))]
    horizon = min((len(curve.losses) * curve.items for curve in finite), default=0.0)
    losses = {case_id: curve.losses[: int(horizon / curve.items + 1e-6)] for case_id, curve in longest.items()}
    axes = [axis for axis in LOSS_AXES if len({case.configuration.get(axis) for case in having}) > 1]
    each = [_training(case, axes, curves[case.case_id], longest[case.case_id], losses[case.case_id]) for case in having]
    ends = [one.loss_end.value for one in each if one.loss_end and one.behaviour == Behaviour.FALLING]
    target = max(ends) if len(ends) > 1 else None
    if target is not None:
        each = [_timed(one, case, longest[case.case_id], target) for one, case in zip(each, having, strict=True)]
    return Trainings(tuple(each), horizon, target, losses)


def _training(
    case: CaseSummary, axes: Sequence[str], curves: Sequence[LossCurve], curve: LossCurve, losses: Sequence[float]
) -> TrainingSummary:
    fall = rate(losses) if losses else None
    end = ending(losses)
    different = tuple(dict.fromkeys(one.losses for one in curves))  # trials of one seed mostly have the same
    return TrainingSummary(
        case_id=case.case_id,
        point={axis: case.configuration.get(axis) for axis in axes},
        behaviour=min(map(behaviour, different), key=_WORST_FIRST.index),
        spikes=max(map(len, map(spikes, different))),
        steps=len(curve.losses),
        loss_start=start(curve.losses),
        loss_end=Span(end.value, end.low, end.high) if end is not None else None,
        rate_per_step=Span(fall.value, fall.low, fall.high) if fall is not None else None,
        rate_per_1000_items=Span(*(1000.0 / curve.items * x for x in fall[:3])) if fall is not None else None,
    )


def _timed(training: TrainingSummary, case: CaseSummary, curve: LossCurve, target: float) -> TrainingSummary:
    if not training.steady or (steps := steps_to(curve.losses, target)) is None:
        return training
    items, speed = steps * curve.items, case.estimates.get("throughput")
    time_s = items / speed.value if speed is not None and speed.value > 0.0 else None
    return msgspec.structs.replace(training, items_to_target=items, time_to_target_s=time_s)


def alike_but_for(axes: Sequence[str], trainings: Sequence[TrainingSummary]) -> list[list[TrainingSummary]]:
    """Return the trainings that differ in these axes alone, together: two or more.

    Nothing where the first of the axes is the same in all: they differ in something that is no axis.
    """
    if not trainings or axes[0] not in trainings[0].point:
        return []
    found: dict[tuple[tuple[str, Scalar], ...], list[TrainingSummary]] = {}
    for one in trainings:
        rest = tuple((axis, value) for axis, value in one.point.items() if axis not in axes)
        found.setdefault(rest, []).append(one)
    return [together for together in found.values() if len(together) > 1]


def lowest(trainings: Sequence[TrainingSummary]) -> TrainingSummary | None:
    """Return the steady training whose loss ended lowest."""
    steady = [one for one in trainings if one.steady]
    return min(steady, key=lambda one: one.loss_end.value if one.loss_end is not None else math.inf, default=None)
