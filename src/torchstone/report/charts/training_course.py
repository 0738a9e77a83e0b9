"""The course of a training: loss and accuracy over its epochs, the times of its steps, and what the gauges read.

Lines are called as in a comparison of trainings: "A100 - Train", "A100 - Val".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from torchstone.core import units
from torchstone.core.charts.palette import colours, short
from torchstone.core.charts.picture import Coordinate, Divider, Line, Mark, Panel, Picture
from torchstone.core.charts.thinning import thinned
from torchstone.core.schema.training import TrainingMetrics
from torchstone.report.charts.telemetry import NAME, gauge_panels
from torchstone.report.document import Chart

_MOST = 800  # points of a panel
_MOST_DIVIDERS = 12  # epochs whose ends are marked
_ONE = "one training: no interval"


def training_charts(metrics: TrainingMetrics, device: str) -> list[Chart]:
    """Return the pictures that a training has data for. `device`: what its device is called."""
    name = short(device, 40)
    found = []
    if panels := tuple(_epochs(metrics, name)):
        says = "Loss and accuracy over the epochs, of the training items and of those held out"
        found.append(Chart("training_metrics", says, Picture("Loss and accuracy by epoch", panels, _ONE, columns=2)))
    if (steps := _steps(metrics, name)) is not None:
        picture = Picture("Steps in the order of time", (steps,), columns=1)
        found.append(Chart("batch_times", "The time of each step of the training, in order", picture))
    spans = [(epoch.began_s, epoch.ended_s) for epoch in metrics.epochs]
    if gauges := tuple(gauge_panels(metrics.telemetry, spans, "since the training began")):
        says = "What the gauges read along the time of the training; its epochs are shaded"
        found.append(
            Chart(NAME, says, Picture("Gauges along time", gauges, "single readings; shaded: epochs", columns=2))
        )
    return found


def _epochs(metrics: TrainingMetrics, name: str) -> Iterator[Panel]:
    for what in ("loss", "accuracy"):
        values: list[Mapping[str, Any]] = []
        for line, field in ((f"{name} - Train", f"train_{what}"), (f"{name} - Val", f"val_{what}")):
            told = [(epoch.epoch, getattr(epoch, field)) for epoch in metrics.epochs]
            known = [(float(number), value) for number, value in told if value is not None and math.isfinite(value)]
            values += [{"epoch": at, "y": value, "line": line} for at, value in thinned(known, _MOST)]
        if values:
            order = (f"{name} - Train", f"{name} - Val")
            x = Coordinate("epoch", "epoch", from_zero=False, whole=True)
            y = Coordinate("y", what, from_zero=what == "accuracy")
            shades = colours("line", [value["line"] for value in values], order)
            yield Panel(what, x, (Line(y),), tuple(values), shades, width=360)


def _steps(metrics: TrainingMetrics, name: str) -> Panel | None:
    every = [time_s for epoch in metrics.epochs for time_s in epoch.batch_times_s]
    known = [(float(place), time_s) for place, time_s in enumerate(every) if math.isfinite(time_s) and time_s > 0.0]
    if len(known) < 2:
        return None
    divisor, unit = units.scale_of(sorted(value for _, value in known)[len(known) // 2], "s")
    kept = thinned(known, _MOST)
    values = tuple({"step": place, "y": value / divisor} for place, value in kept)
    ends: list[Mapping[str, Any]] = []
    for epoch in metrics.epochs[:-1] if len(metrics.epochs) <= _MOST_DIVIDERS else ():
        before = ends[-1]["step"] if ends else 0
        ends.append({"step": before + len(epoch.batch_times_s), "word": ""})
    y = Coordinate("y", unit, from_zero=False)
    marks: tuple[Mark, ...] = (Line(y, faint=True), *((Divider("word", tuple(ends)),) if ends else ()))
    words = "single steps; dashed: a new epoch" if ends else "single steps"
    words += "; of each stretch the extremes" if len(kept) < len(known) else ""
    return Panel(name, Coordinate("step", "step", from_zero=False, whole=True), marks, values, None, words, width=640)
