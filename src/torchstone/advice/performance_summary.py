"""A sweep of trainings in a few numbers: least, most and mean over its Cases, and the mean at each value of an axis.

A mean over Cases is a mean over what happened to be asked for: it sums a sweep up, and compares nothing. Ratios of
Cases that are equal but for one axis are in the other readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.advice.grouping import groups
from torchstone.summary import CaseSummary, RunSummary
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Task

_MIXED = ("bf16", "fp16")


class Extent(msgspec.Struct, frozen=True):
    """Of one figure over Cases, in `unit`. `by_…`: the mean over the Cases with that value; empty where it has one."""

    unit: str
    min: float
    max: float
    mean: float
    by_batch_size: Mapping[str, float] = {}
    by_optimizer: Mapping[str, float] = {}
    by_mixed_precision: Mapping[str, float] = {}
    by_learning_rate: Mapping[str, float] = {}


class PerformanceSummary(msgspec.Struct, frozen=True):
    """The trainings of one model on one device. What no Case has is None.

    `training_time`: of a step, its extremes over all steps; `loss_convergence`: slope of ln(loss) a step, the least
    being the fastest fall; a training that diverged has none.
    """

    model: str
    device: str
    data: str
    item: str
    cases: int
    training_time: Extent | None
    throughput: Extent | None
    loss_convergence: Extent | None


def performance_summary(run: RunSummary) -> list[PerformanceSummary]:
    """Return the summary of each group of trainings that has a throughput."""
    trained = [cases for cases in groups(run.cases) if cases[0].workload.task == Task.TRAIN]
    return [_summary(cases) for cases in trained if any("throughput" in case.estimates for case in cases)]


def _summary(cases: Sequence[CaseSummary]) -> PerformanceSummary:
    first = cases[0]
    return PerformanceSummary(
        model=first.workload.model,
        device=str(first.placement),
        data=first.workload.data,
        item=first.workload.item,
        cases=len(cases),
        training_time=_extent(cases, "step_time_mean", ("step_time_min", "step_time_max")),
        throughput=_extent(cases, "throughput"),
        loss_convergence=_extent([case for case in cases if not _diverged(case)], "loss_convergence_rate"),
    )


def _extent(cases: Sequence[CaseSummary], figure: str, ends: tuple[str, str] | None = None) -> Extent | None:
    having = [case for case in cases if figure in case.estimates]
    if not having:
        return None
    values = [case.estimates[figure].value for case in having]
    low, high = (
        [case.estimates[name].value for case in having if name in case.estimates] for name in ends or (figure, figure)
    )
    by = {f"by_{name}": _means(having, figure, of) for name, of in _BY.items()}
    return Extent(having[0].estimates[figure].unit, min(low or values), max(high or values), fmean(values), **by)


def _diverged(case: CaseSummary) -> bool:
    return any(finding.check == "loss_diverged" for finding in case.findings)


def _means(cases: Sequence[CaseSummary], figure: str, of: Callable[[CaseSummary], Scalar]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for case in cases:
        if (value := of(case)) is not None:
            found.setdefault(str(value), []).append(case.estimates[figure].value)
    return {value: fmean(each) for value, each in found.items()} if len(found) > 1 else {}


def _is_mixed(case: CaseSummary) -> Scalar:
    precision = case.configuration.get("precision")
    return None if precision is None else "mixed_precision" if precision in _MIXED else "full_precision"


_BY: Mapping[str, Callable[[CaseSummary], Scalar]] = {
    "batch_size": lambda case: case.configuration.get("batch_size"),
    "optimizer": lambda case: case.configuration.get("optimizer"),
    "mixed_precision": _is_mixed,
    "learning_rate": lambda case: case.configuration.get("learning_rate"),
}
