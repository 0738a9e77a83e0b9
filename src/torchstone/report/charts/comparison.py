"""Pictures over machines: figures over batch size, losses of measured steps, a colour a device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import msgspec

from torchstone.analysis.advice.loss_curves import Curve, curves_of
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.rows import case_rows
from torchstone.core import units
from torchstone.core.charts.picture import Colours, Coordinate, Interval, Kind, Line, Mark, Panel, Picture
from torchstone.core.schema.axis import AXES, Scalar, followers
from torchstone.core.schema.case import Case, portable
from torchstone.core.schema.memory_figures import PEAKS

_MOST_POINTS = 200  # of a loss curve: a picture shows no more
_RATE = "learning_rate"
_FOLLOWING = ("batch_size", *followers("batch_size"))


class Quantity(msgspec.Struct, frozen=True):
    """What a chart shows: the first of these columns that a workload has, times a factor.

    `by_rate`: cases that differ in the learning rate alone are lines of their own; else they are one point, their mean.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    factor: float = 1.0
    by_rate: bool = False


QUANTITIES = (
    Quantity("throughput", "items/s", ("output_token_throughput", "throughput")),
    Quantity("latency", "latency or step, ms", ("latency_per_batch_p50_s", "step_time", "step_time_mean"), 1e3),
    Quantity("memory", "peak memory, GiB", PEAKS, 2.0**-30),
    Quantity("utilization", "device in use, %", ("device_utilization",), 100.0),
    Quantity("power", "mean power, W", ("average_power_w",)),
    Quantity("energy", "energy an item, J", ("energy_per_item_j",)),
    Quantity("efficiency", "share of the peak rate (MFU), %", ("mfu_datasheet", "mfu_measured"), 100.0),
    Quantity("convergence", "slope of ln(loss) a step, %", ("loss_convergence_rate",), 100.0, by_rate=True),
)


class Point(msgspec.Struct, frozen=True):
    """One Case: which workload, the name of its line, its batch size, and its row of figures."""

    workload: str
    label: str
    line: str
    batch: int
    row: Mapping[str, Scalar]


def points(participants: Sequence[ComparedInput]) -> list[Point]:
    """Return the Cases that have a batch size and any figure, those of one device under its label."""
    found = []
    for one in participants:
        rows = [row for run in one.runs for row in case_rows(run)]
        varying = [
            axis for axis in AXES
            if axis not in _FOLLOWING and len({row[axis] for row in rows if axis in row}) > 1
        ]  # fmt: skip
        for row in rows:
            size = row.get("batch_size")
            if isinstance(size, int):
                others = [f"{axis} {row[axis]}" for axis in varying if row.get(axis) is not None]
                found.append(Point(
                    f"{row['task']} {row['model']}", one.label, ", ".join([one.label, *others]), size, row,
                ))  # fmt: skip
    return found


def over_batch_size(quantity: Quantity, drawn: Sequence[Point]) -> list[Panel]:
    """Return the panels of one quantity, a workload each, a line a device; none where nobody has it."""
    panels = []
    for workload in dict.fromkeys(point.workload for point in drawn):
        own = [point for point in drawn if point.workload == workload]
        panel = _panel(quantity, own, workload)
        if panel is not None:
            panels.append(panel)
    return panels


def of_device(label: str, drawn: Sequence[Point]) -> Picture | None:
    """Return every quantity of one device's Cases, a row a workload."""
    own = [point for point in drawn if point.label == label]
    panels = [
        panel for workload in dict.fromkeys(point.workload for point in own) for quantity in QUANTITIES
        if (panel := _panel(quantity, [p for p in own if p.workload == workload], f"{workload}: {quantity.name}"))
    ]  # fmt: skip
    return Picture(label, tuple(panels), columns=len(QUANTITIES)) if panels else None


def _panel(quantity: Quantity, own: Sequence[Point], title: str) -> Panel | None:
    column = next((c for c in quantity.columns if any(point.row.get(c) is not None for point in own)), None)
    if column is None:
        return None
    found: dict[tuple[str, int], list[Mapping[str, float | None]]] = {}
    for line, point in _lined(own) if quantity.by_rate else [(point.line, point) for point in own]:
        if isinstance(value := point.row.get(column), int | float):
            found.setdefault((line, point.batch), []).append(_ends(point.row, column, quantity.factor))
    values = [{"line": line, "x": batch, **_joined(each)} for (line, batch), each in found.items()]
    x = Coordinate("x", "batch size", Kind.STEPS)
    return lines(values, title, x, quantity.title)


def _ends(row: Mapping[str, Scalar], column: str, factor: float) -> dict[str, float | None]:
    """Return a value and its interval as they are drawn; one that is too wide is not."""
    value, low, high = (row.get(name) for name in (column, f"{column}_low", f"{column}_high"))
    ends = [float(end) * factor if isinstance(end, int | float) else None for end in (value, low, high)]
    wide = units.is_wide(ends[0] or 0.0, ends[1], ends[2])
    return {"y": ends[0], "low": None if wide else ends[1], "high": None if wide else ends[2]}


def _joined(each: Sequence[Mapping[str, float | None]]) -> Mapping[str, float | None]:
    """Return the one there is; of several runs of a case their mean, which has no interval here."""
    if len(each) == 1:
        return each[0]
    return {"y": fmean(one["y"] or 0.0 for one in each), "low": None, "high": None}


def _lined(own: Sequence[Point]) -> list[tuple[str, Point]]:
    """Return the points with the names of their lines: with the learning rate where one batch size has several."""
    rates: dict[tuple[str, int], set[Scalar]] = {}
    for point in own:
        rates.setdefault((point.line, point.batch), set()).add(point.row.get(_RATE))
    several = {line for (line, _), found in rates.items() if len(found) > 1}
    return [(f"{p.line}, {_RATE} {p.row.get(_RATE)}" if p.line in several else p.line, p) for p in own]


def losses(participants: Sequence[ComparedInput]) -> Picture | None:
    """Return the losses of the first steps of trainings that were measured, a panel a batch size; None without any.

    A line is named by its device, and by the axes in which its trainings of that panel differ.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in participants:
        for panel, cases in _trained(one, several=_models(participants) > 1).items():
            varying = [axis for axis in AXES if len({case.configuration.get(axis) for case, _ in cases}) > 1]
            for case, curve in cases:
                line = ", ".join([one.label, *(f"{axis} {case.configuration.get(axis)}" for axis in varying)])
                values = found.setdefault(panel, [])
                values += [{"line": line, "x": x, "y": y} for x, y in thinned(curve.losses)]
    x = Coordinate("x", "step")
    panels = tuple(lines(values, panel, x, "loss") for panel, values in found.items())
    return Picture("Training loss, means of neighbouring steps", panels) if panels else None


def _models(participants: Sequence[ComparedInput]) -> int:
    return len({case.workload.model for one in participants for run in one.runs for case in run.head.plan.cases})


def _trained(one: ComparedInput, *, several: bool) -> dict[str, list[tuple[Case, Curve]]]:
    """Return the trainings that have losses, a curve a case, the newest, by the title of their panel."""
    found: dict[str, dict[str, tuple[Case, Curve]]] = {}
    for run in one.runs:
        curves = curves_of(run)
        for case in run.head.plan.cases:
            title = f"batch size {case.configuration.get('batch_size')}"
            panel = f"{portable(case.workload.model)}, {title}" if several else title
            for curve in curves.get(case.case_id, ())[:1]:
                found.setdefault(panel, {})[case.case_id] = (case, curve)
    return {panel: list(cases.values()) for panel, cases in found.items()}


def thinned(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield places and means of neighbours, 200 at most; none where one was no number."""
    count = min(len(values), _MOST_POINTS)
    for begin, end in pairwise(i * len(values) // count for i in range(count + 1)):
        if all(map(math.isfinite, values[begin:end])):
            yield (begin + end - 1) / 2.0, fmean(values[begin:end])


def lines(values: Sequence[Mapping[str, Any]], title: str, x: Coordinate, y: str) -> Panel:
    """Return a panel: a line for each word under `line`, through its points `x`, `y`."""
    named = tuple(dict.fromkeys(value["line"] for value in values))
    along = Coordinate("y", y)
    marks: tuple[Mark, ...] = (Line(along),)
    if any(value.get("low") is not None for value in values):
        marks = (*marks, Interval(along))
    return Panel(title, x, marks, tuple(values), Colours("line", named))
