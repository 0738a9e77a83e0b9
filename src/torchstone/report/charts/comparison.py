"""The pictures of a comparison: figures over batch size, losses and trainings, a colour a device.

Lines of trainings are called "A100 - Train" and "RTX 4070 - Val": by the device where that tells the compared apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import msgspec

from torchstone.analysis.advice.trainings import LossCurve, curves_of
from torchstone.analysis.compare.compared_figures import COST, primary
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.rows import case_rows
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, Spec, thinned
from torchstone.core.schema.axis import AXES, Scalar, followers
from torchstone.core.schema.case import Case, portable
from torchstone.core.schema.metric import PEAKS
from torchstone.core.schema.training import TrainingMetrics
from torchstone.core.schema.trial import Status
from torchstone.report.charts.batch_sizes import MOST_CURVES, WIDE, failure_word, lost_words
from torchstone.report.charts.courses import GAUGES, LONG_S, gauge_points

_MOST_POINTS = 200  # of a loss curve: a picture shows no more
_COLUMNS = 4  # panels beside each other
_RATE = "learning_rate"
_FOLLOWING = ("batch_size", *followers("batch_size"))
# Of each picture the gauges that may tell, the best first.
_READ = {
    "utilization": ("device_utilization", "process_cpu_s"),
    "memory": ("device_memory_used_bytes", "rss_bytes"),
    "power": ("device_power_w",),
}

Points = list[tuple[float, float]]


# ── measured cases ──────────────────────────────────────────────────────────────────────────────────────────


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
    Quantity("latency", "latency or step, ms", ("latency_per_batch_p50_s", "step_time_mean"), 1e3),
    Quantity("memory", "peak memory, GiB", PEAKS, 2.0**-30),
    Quantity("utilization", "device in use, %", ("device_utilization",), 100.0),
    Quantity("power", "mean power, W", ("average_power_w",)),
    Quantity("energy", "energy an item, J", ("energy_per_item_j",)),
    Quantity("cost", "cost of a million items", (COST,)),
    Quantity("efficiency", "share of the peak rate (MFU), %", ("mfu_datasheet", "mfu_measured"), 100.0),
    Quantity("convergence", "slope of ln(loss) a step, %", ("loss_convergence_rate",), 100.0, by_rate=True),
)


class ComparedPoint(msgspec.Struct, frozen=True):
    """One Case: which workload, the name of its line, its batch size, and its row of figures."""

    workload: str
    label: str
    line: str
    batch: int
    row: Mapping[str, Scalar]


def by_batch(participants: Sequence[ComparedInput], prices: Mapping[str, float] | None = None) -> list[ComparedPoint]:
    """Return the Cases that have a batch size and any figure, those of one device under its label.

    `prices`: money an hour, by the letter of a participant.
    """
    found = []
    for one in participants:
        price = (prices or {}).get(one.letter)
        rows = [{**row, **_costs(row, price)} for run in one.runs for row in case_rows(run)]
        varying = [
            axis for axis in AXES if axis not in _FOLLOWING and len({row[axis] for row in rows if axis in row}) > 1
        ]
        for row in rows:
            size = row.get("batch_size")
            if isinstance(size, int):
                others = [f"{axis} {row[axis]}" for axis in varying if row.get(axis) is not None]
                found.append(
                    ComparedPoint(
                        f"{row['task']} {row['model']}", one.label, ", ".join([one.label, *others]), size, row
                    )
                )
    return found


def fastest_lines(drawn: Sequence[ComparedPoint]) -> tuple[list[ComparedPoint], int]:
    """Return the points of as many lines as there are colours, and how many lines are left out.

    Those are the first, which the others are compared with, and the fastest: with the highest share of the highest
    throughput of their workload.
    """
    top: dict[str, float] = {}
    for point in drawn:
        top[point.workload] = max(top.get(point.workload, 0.0), _rate_of(point))
    best: dict[str, float] = {}
    for point in drawn:
        share = _rate_of(point) / top[point.workload] if top[point.workload] else 0.0
        best[point.line] = max(best.get(point.line, 0.0), share)
    first, *others = best or [""]
    kept = {first, *sorted(others, key=lambda line: -best[line])[: MOST_CURVES - 1]}
    return [point for point in drawn if point.line in kept], len(best) - len(kept.intersection(best))


def _rate_of(point: ComparedPoint) -> float:
    value = point.row.get(primary(str(point.row["task"])))
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def over_batch_size(quantity: Quantity, drawn: Sequence[ComparedPoint]) -> list[Panel]:
    """Return the panels of one quantity, a workload each, a line a device; none where nobody has it."""
    order = [point.line for point in drawn]
    panels = []
    for workload in dict.fromkeys(point.workload for point in drawn):
        own = [point for point in drawn if point.workload == workload]
        panel = _panel(quantity, own, workload, order)
        if panel is not None:
            panels.append(panel)
    return panels


def of_device(label: str, drawn: Sequence[ComparedPoint]) -> Picture | None:
    """Return every quantity of one device's Cases, a group of panels a workload."""
    own, order = [point for point in drawn if point.label == label], [point.line for point in drawn]
    panels = []
    for workload in dict.fromkeys(point.workload for point in own):
        of_workload = [point for point in own if point.workload == workload]
        found = (_panel(quantity, of_workload, quantity.name, order) for quantity in QUANTITIES)
        panels += [msgspec.structs.replace(panel, group=workload) for panel in found if panel is not None]
    return Picture(label, tuple(panels), bar_words(panels), columns=_COLUMNS) if panels else None


def bar_words(panels: Sequence[Panel]) -> str:
    """Return what the bars of a picture are; "" where it has none."""
    drawn = any("y2" in layer["encoding"] for one in panels for layer in one.layers)
    return "bars: 95 % confidence intervals over trials" if drawn else ""


def _panel(quantity: Quantity, own: Sequence[ComparedPoint], title: str, order: Sequence[str]) -> Panel | None:
    column = next((c for c in quantity.columns if any(point.row.get(c) is not None for point in own)), None)
    if column is None:
        return None
    found: dict[str, dict[int, list[Mapping[str, float | None]]]] = {}
    lost: dict[int, dict[str, str]] = {}
    for line, point in _lined(own) if quantity.by_rate else [(point.line, point) for point in own]:
        ends, why = _ends(point.row, column, quantity.factor), _lost(point.row)
        if ends is not None and ends["y"] is not None:
            found.setdefault(line, {}).setdefault(point.batch, []).append(ends)
        elif why is not None or ends is None:
            lost.setdefault(point.batch, {})[line] = why or WIDE
    sizes = sorted({point.batch for point in own})
    values = [
        {"line": line, "x": batch, "piece": sizes.index(batch) - count, **_joined(each)}
        for line, taken in found.items()
        for count, (batch, each) in enumerate(sorted(taken.items()))
    ]
    failed = [{"x": batch, "word": lost_words(each, len({*found, *each}))} for batch, each in lost.items()]
    return panel_of(values, title, vl.steps("x", "batch size"), quantity.title, order, failed)


def _lost(row: Mapping[str, Scalar]) -> str | None:
    """Return how a Case without a value failed; None where nothing did."""
    ends = [status for status in Status if status not in (Status.OK, Status.SKIPPED) and row.get(status)]
    return failure_word(ends[0]) if ends else None


def _costs(row: Mapping[str, Scalar], price_an_hour: float | None) -> Mapping[str, Scalar]:
    """Return what a million items cost, with its interval, in the money of the price; nothing without one."""
    rate = primary(str(row["task"]))
    if price_an_hour is None:
        return {}
    of = {COST: rate, f"{COST}_low": f"{rate}_high", f"{COST}_high": f"{rate}_low"}
    known = {name: row.get(column) for name, column in of.items()}
    return {
        name: 1e6 * price_an_hour / 3600.0 / value if isinstance(value, int | float) and value > 0.0 else None
        for name, value in known.items()
    }


def _ends(row: Mapping[str, Scalar], column: str, factor: float) -> dict[str, float | None] | None:
    """Return a value and its interval as they are drawn; None where that is too wide."""
    told = (row.get(name) for name in (column, f"{column}_low", f"{column}_high"))
    value, low, high = (float(end) * factor if isinstance(end, int | float) else None for end in told)
    return None if units.is_wide(value or 0.0, low, high) else {"y": value, "low": low, "high": high}


def _joined(each: Sequence[Mapping[str, float | None]]) -> Mapping[str, float | None]:
    """Return the one there is; of several runs of a case their mean, which has no interval here."""
    if len(each) == 1:
        return each[0]
    return {"y": fmean(one["y"] or 0.0 for one in each), "low": None, "high": None}


def _lined(own: Sequence[ComparedPoint]) -> list[tuple[str, ComparedPoint]]:
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
                values += [{"line": line, "x": x, "y": y} for x, y in _means(curve.losses)]
    x = vl.number_axis("x", "step")
    order = [value["line"] for values in found.values() for value in values]
    panels = tuple(panel_of(values, panel, x, "loss", order) for panel, values in found.items())
    return Picture("Training loss, means of neighbouring steps", panels) if panels else None


def _models(participants: Sequence[ComparedInput]) -> int:
    return len({case.workload.model for one in participants for run in one.runs for case in run.head.plan.cases})


def _trained(one: ComparedInput, *, several: bool) -> dict[str, list[tuple[Case, LossCurve]]]:
    """Return the trainings that have losses, a curve a case, the newest, by the title of their panel."""
    found: dict[str, dict[str, tuple[Case, LossCurve]]] = {}
    for run in one.runs:
        curves = curves_of(run)
        for case in run.head.plan.cases:
            title = f"batch size {case.configuration.get('batch_size')}"
            panel = f"{portable(case.workload.model)}, {title}" if several else title
            for curve in curves.get(case.case_id, ())[:1]:
                found.setdefault(panel, {})[case.case_id] = (case, curve)
    return {panel: list(cases.values()) for panel, cases in found.items()}


def _means(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield places and means of neighbours, 200 at most; none where one was no number."""
    count = min(len(values), _MOST_POINTS)
    for begin, end in pairwise(i * len(values) // count for i in range(count + 1)):
        if all(map(math.isfinite, values[begin:end])):
            yield (begin + end - 1) / 2.0, fmean(values[begin:end])


def panel_of(
    values: vl.Values, title: str, x: Spec, y: str, order: Iterable[str] = (), failed: vl.Values = ()
) -> Panel:
    """Return a panel: a line for each word under `line`, through its points `x`, `y`, which `piece` may part.

    `order`: the lines of all panels that are read together, in which each has its colour. `failed`: words at `x`.
    """
    one = vl.line("piece" if any("piece" in value for value in values) else None)
    bars = [vl.interval_bar()] if any(value.get("low") is not None for value in values) else []
    shades = vl.colours("line", [value["line"] for value in values], list(order))
    return vl.panel(title, x, vl.number_axis("y", y), (*vl.failures(failed), one, *bars), values, shades)


# ── trainings to their end ──────────────────────────────────────────────────────────────────────────────────


class GaugeCurve(msgspec.Struct, frozen=True):
    """What one gauge read during one training: seconds since it was asked for, and values as they are drawn."""

    run_id: str
    line: str
    title: str
    points: Points


def epochs(participants: Sequence[ComparedInput]) -> Picture | None:
    """Return loss and accuracy over the epochs of the trainings; None without any."""
    found: dict[str, list[Mapping[str, Any]]] = {"loss": [], "accuracy": []}
    for name, metrics in _trainings(participants):
        for epoch in metrics.epochs:
            for what, part, value in (
                ("loss", "Train", epoch.train_loss),
                ("loss", "Val", epoch.val_loss),
                ("accuracy", "Train", epoch.train_accuracy),
                ("accuracy", "Val", epoch.val_accuracy),
            ):
                if value is not None:
                    found[what].append({"line": f"{name} - {part}", "x": epoch.epoch, "y": value})
    order = line_names(participants)
    panels = tuple(
        panel_of(values, what, vl.count_axis("x", "epoch", values), what, order)
        for what, values in found.items()
        if values
    )
    return Picture("Trainings", panels, "one training a line: no intervals") if panels else None


def training_curves(quantity: str, participants: Sequence[ComparedInput]) -> list[GaugeCurve]:
    """Return a curve a training of `utilization`, `memory` or `power`, by the first of its gauges that was read.

    Without a device's own, utilization is how many cores the training kept busy, and memory what its processes held.
    """
    found = []
    gauges = [gauge for metric in _READ.get(quantity, ()) for gauge in GAUGES if gauge.metric == metric]
    for name, metrics in _trainings(participants):
        read = ((gauge, one) for gauge in gauges for one in metrics.telemetry if one.metric == gauge.metric)
        gauge, series = next(read, (None, None))
        if gauge is not None and series is not None and (points := thinned(gauge_points(series, gauge), _MOST_POINTS)):
            found.append(GaugeCurve(metrics.run_id, f"{name} - Train", gauge.title, points))
    return found


def line_names(participants: Sequence[ComparedInput]) -> list[str]:
    """Return the names of all lines of the trainings, in which each has its colour in every picture."""
    return [f"{name} - {part}" for name, _ in _trainings(participants) for part in ("Train", "Val")]


def over_time(drawn: Sequence[GaugeCurve], order: Sequence[str] = ()) -> list[Panel]:
    """Return a panel for each kind of gauge among the curves, in minutes where one is longer than ten.

    `order`: the lines of all panels that are read together, in which each has its colour.
    """
    panels = []
    for title in dict.fromkeys(curve.title for curve in drawn):
        own = [curve for curve in drawn if curve.title == title]
        long = max(at_s for curve in own for at_s, _ in curve.points) > LONG_S
        each_s, unit = (60.0, "min") if long else (1.0, "s")
        values = [{"line": curve.line, "x": at_s / each_s, "y": y} for curve in own for at_s, y in curve.points]
        x = vl.number_axis("x", f"since the training began, {unit}")
        panels.append(panel_of(values, "during training", x, title, order))
    return panels


def _trainings(participants: Sequence[ComparedInput]) -> Iterator[tuple[str, TrainingMetrics]]:
    """Yield each training with its name: that of its side, and of its run where the side has several."""
    for one in participants:
        for run_id, metrics in one.trainings.items():
            yield (f"{one.label} {run_id}" if len(one.trainings) > 1 else one.label), metrics
