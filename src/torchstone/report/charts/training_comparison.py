"""Pictures of trainings: losses and accuracies over epochs, gauges over time, a line a training.

The lines are called "A100 - Train" and "RTX 4070 - Val": by the device where that tells the compared apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.charts.picture import Coordinate, Panel, Picture
from torchstone.core.schema.training import TrainingMetrics
from torchstone.core.schema.trial import Series
from torchstone.report.charts.machines import lines, thinned

Points = list[tuple[float, float]]
_GIB, _LONG_S = 2.0**30, 600.0


class Curve(msgspec.Struct, frozen=True):
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
                ("loss", "Train", epoch.train_loss), ("loss", "Val", epoch.val_loss),
                ("accuracy", "Train", epoch.train_accuracy), ("accuracy", "Val", epoch.val_accuracy),
            ):  # fmt: skip
                if value is not None:
                    found[what].append({"line": f"{name} - {part}", "x": epoch.epoch, "y": value})
    x, order = Coordinate("x", "epoch", whole=True), line_names(participants)
    panels = tuple(lines(values, what, x, what, order) for what, values in found.items() if values)
    return Picture("Trainings", panels, "one training a line: no intervals") if panels else None


def curves(quantity: str, participants: Sequence[ComparedInput]) -> list[Curve]:
    """Return a curve a training of `utilization`, `memory` or `power`, by the first of its gauges that was read.

    Without a device's own, utilization is how many cores the training kept busy, and memory what its processes held.
    """
    found = []
    for name, metrics in _trainings(participants):
        told = next(
            ((title, one, drawn) for metric, title, drawn in _GAUGES.get(quantity, ())
             for one in metrics.telemetry if one.metric == metric), None,
        )  # fmt: skip
        if told is not None and (points := told[2](told[1])):
            found.append(Curve(metrics.run_id, f"{name} - Train", told[0], points))
    return found


def line_names(participants: Sequence[ComparedInput]) -> list[str]:
    """Return the names of all lines of the trainings, in which each has its colour in every picture."""
    return [f"{name} - {part}" for name, _ in _trainings(participants) for part in ("Train", "Val")]


def over_time(drawn: Sequence[Curve], order: Sequence[str] = ()) -> list[Panel]:
    """Return a panel for each kind of gauge among the curves, in minutes where one is longer than ten.

    `order`: the lines of all panels that are read together, in which each has its colour.
    """
    panels = []
    for title in dict.fromkeys(curve.title for curve in drawn):
        own = [curve for curve in drawn if curve.title == title]
        long = max(at_s for curve in own for at_s, _ in curve.points) > _LONG_S
        each_s, unit = (60.0, "min") if long else (1.0, "s")
        values = [{"line": curve.line, "x": at_s / each_s, "y": y} for curve in own for at_s, y in curve.points]
        x = Coordinate("x", f"since the training began, {unit}")
        panels.append(lines(values, "during training", x, title, order))
    return panels


def _trainings(participants: Sequence[ComparedInput]) -> Iterator[tuple[str, TrainingMetrics]]:
    """Yield each training with its name: that of its side, and of its run where the side has several."""
    for one in participants:
        for run_id, metrics in one.trainings.items():
            yield (f"{one.label} {run_id}" if len(one.trainings) > 1 else one.label), metrics


def _times(factor: float) -> Callable[[Series], Points]:
    def drawn(series: Series) -> Points:
        readings = zip(series.at_s, series.values, strict=False)
        return _thin([(at_s, value * factor) for at_s, value in readings])

    return drawn


def _rate(series: Series) -> Points:
    """Return by how much a counter rose a second, at the middle between two readings."""
    readings = list(zip(series.at_s, series.values, strict=False))
    return _thin([((a + b) / 2, (w - v) / (b - a)) for (a, v), (b, w) in pairwise(readings) if b > a])


def _thin(points: Points) -> Points:
    """Return means of neighbours, as many as a picture can show."""
    known = [point for point in points if all(map(math.isfinite, point))]
    moments, values = (thinned([point[place] for point in known]) for place in (0, 1))
    return [(at_s, value) for (_, at_s), (_, value) in zip(moments, values, strict=True)]


# Of each picture: the gauges that may tell, the best first, with the title of their axis.
_GAUGES: Mapping[str, tuple[tuple[str, str, Callable[[Series], Points]], ...]] = {
    "utilization": (
        ("device_utilization", "device in use, %", _times(100.0)), ("process_cpu_s", "CPU cores in use", _rate),
    ),
    "memory": (
        ("device_memory_used_bytes", "device memory in use, GiB", _times(1 / _GIB)),
        ("rss_bytes", "resident memory, GiB", _times(1 / _GIB)),
    ),
    "power": (("device_power_w", "power, W", _times(1.0)),),
}  # fmt: skip
