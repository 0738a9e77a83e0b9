"""Document of a run: head, trials, findings and end in one self-contained piece of JSON; a sweep in a few numbers.

The summary of a sweep of trainings is in the words of seed S3: least, most and mean, and the mean at each value. A mean
over Cases is a mean over what happened to be asked for: it sums a sweep up, and compares nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.core.schema.answer import Answer
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.codec import encode, with_texts
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.run import SCHEMA, End, Head, Run
from torchstone.core.schema.trial import Trial

Row = Mapping[str, Scalar]
_MIXED = ("bf16", "fp16")


class Extent(msgspec.Struct, frozen=True):
    """Of one figure over Cases, in `unit`."""

    unit: str
    min: float
    max: float
    mean: float


class TrainingTime(Extent, frozen=True):
    """Time of a step: its extremes over all steps. `by_…`: the mean over the Cases with that value."""

    by_batch_size: Mapping[str, float] = {}
    by_optimizer: Mapping[str, float] = {}
    by_mixed_precision: Mapping[str, float] = {}  # mixed_precision, full_precision


class LossConvergence(Extent, frozen=True):
    """Slope of ln(loss) a step, the least being the fastest fall; a training that diverged has none."""

    by_learning_rate: Mapping[str, float] = {}


class PerformanceSummary(msgspec.Struct, frozen=True):
    """The trainings of one model on one device. What no Case has is None."""

    model: str
    device: str
    data: str
    item: str
    cases: int
    training_time: TrainingTime | None
    throughput: Extent | None
    loss_convergence: LossConvergence | None


def performance_summaries(rows: Iterable[Row], diverged: Collection[str] = ()) -> tuple[PerformanceSummary, ...]:
    """Return the summary of each group of trainings that has a throughput.

    `rows`: one a Case, as rows.case_rows makes them; `diverged`: the case_ids of trainings whose loss left for good.
    """
    groups: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        if row.get("task") == "train":
            groups.setdefault(tuple(row.get(key) for key in ("model", "dataset", "device")), []).append(row)
    having = [group for group in groups.values() if any(_number(row, "throughput") is not None for row in group)]
    return tuple(_summary(group, diverged) for group in having)


def _summary(rows: Sequence[Row], diverged: Collection[str]) -> PerformanceSummary:
    first = rows[0]
    times = [row for row in rows if _number(row, "step_time_mean") is not None]
    steady = [row for row in rows if row.get("case_id") not in diverged]
    falls = [row for row in steady if _number(row, "loss_convergence_rate") is not None]
    time, fall = _extent(times, "step_time_mean"), _extent(falls, "loss_convergence_rate")
    ends = [[end for row in times if (end := _number(row, f"step_time_{name}")) is not None] for name in ("min", "max")]
    return PerformanceSummary(
        str(first.get("model")),
        str(first.get("device")),
        str(first.get("dataset")),
        str(first.get("item")),
        len(rows),
        None
        if time is None
        else TrainingTime(
            time.unit,
            min(ends[0], default=time.min),
            max(ends[1], default=time.max),
            time.mean,
            _means(times, "step_time_mean", "batch_size"),
            _means(times, "step_time_mean", "optimizer"),
            _means([{**row, "precision": _mixed(row)} for row in times], "step_time_mean", "precision"),
        ),
        _extent(rows, "throughput"),
        None
        if fall is None
        else LossConvergence(
            fall.unit, fall.min, fall.max, fall.mean, _means(falls, "loss_convergence_rate", "learning_rate")
        ),
    )


def _extent(rows: Sequence[Row], figure: str) -> Extent | None:
    values = [value for row in rows if (value := _number(row, figure)) is not None]
    return Extent(str(FIGURES[figure].unit), min(values), max(values), fmean(values)) if values else None


def _means(rows: Sequence[Row], figure: str, axis: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if (value := _number(row, figure)) is not None and row.get(axis) is not None:
            found.setdefault(str(row[axis]), []).append(value)
    return {value: fmean(each) for value, each in found.items()}


def _mixed(row: Row) -> Scalar:
    precision = row.get("precision")
    return None if precision is None else "mixed_precision" if precision in _MIXED else "full_precision"


def _number(row: Row, figure: str) -> float | None:
    value = row.get(figure)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class RunDocument(msgspec.Struct, frozen=True, tag="document", tag_field="record"):
    """A whole run. `rows` and `performance_summary` are derived, for other programs: written, never read again."""

    schema: int
    head: Head
    trials: tuple[Trial, ...]
    findings: tuple[Finding, ...]
    end: End | None
    rows: tuple[Mapping[str, Scalar], ...] = ()
    answer: Answer | None = None
    performance_summary: tuple[PerformanceSummary, ...] = ()


def document_bytes(
    run: Run, rows: Sequence[Mapping[str, Scalar]] = (), summary: Sequence[PerformanceSummary] | None = None
) -> bytes:
    """Return the run as a JSON document that can be imported again, non-finite values included.

    `summary`: of its trainings; None takes it from the rows.
    """
    if summary is None:
        diverged = {finding.subject for finding in run.findings if finding.check == "loss_diverged"}
        summary = performance_summaries(rows, diverged)
    whole = RunDocument(SCHEMA, run.head, run.trials, run.findings, run.end, tuple(rows), run.answer, tuple(summary))
    return encode(with_texts(whole)) + b"\n"
