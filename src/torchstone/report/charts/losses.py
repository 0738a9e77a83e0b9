"""The losses of trainings that differ in learning rate, optimizer, accumulation or precision alone, over items."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torchstone.analysis.advice.loss_curves import AXES, compared, curves_of
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Coordinate, Line, Panel, Picture
from torchstone.core.charts.thinning import thinned
from torchstone.core.schema.run import Run
from torchstone.report.charts.names import device_names, workload_name
from torchstone.report.document import Chart

_MOST_PANELS, _MOST_CURVES, _MOST = 6, 8, 1600
_LOGARITHMIC = 20.0  # times as high as the least: what diverged, beside what did not


def losses_chart(summary: RunSummary, run: Run) -> Chart | None:
    """Return a panel for each group of trainings that can be compared, a curve a training; None without losses."""
    curves = curves_of(run)
    name_of = device_names(summary.machine)
    panels = []
    for group in compared(summary)[:_MOST_PANELS]:
        having = [case for case in group if curves.get(case.case_id)]
        axes = [axis for axis in AXES if len({str(case.configuration.get(axis)) for case in having}) > 1]
        names = short_names(_name(case, axes) for case in having)
        values: list[Mapping[str, Any]] = []
        for case in having[:_MOST_CURVES]:
            curve = curves[case.case_id][0]
            points = [(place * curve.items, loss) for place, loss in enumerate(curve.losses) if math.isfinite(loss)]
            each = max(4, _MOST // min(len(having), _MOST_CURVES))
            values += [{"x": x, "y": y, "line": names[_name(case, axes)]} for x, y in thinned(points, each)]
        if values:
            panels.append(_panel(values, tuple(names.values()), group[0], name_of(group[0])))
    if not panels:
        return None
    says = "The loss of each training over the items it saw, a curve for each setting that was compared"
    words = "one training a curve, its trials repeat it: no interval"
    return Chart("loss_convergence", says, Picture("Loss by items seen", tuple(panels), words, columns=2))


def _name(case: CaseSummary, axes: list[str]) -> str:
    return ", ".join(f"{axis} {case.configuration.get(axis)}" for axis in axes)


def _panel(values: list[Mapping[str, Any]], order: tuple[str, ...], case: CaseSummary, device: str) -> Panel:
    losses = [value["y"] for value in values]
    uneven = min(losses) > 0.0 and max(losses) > _LOGARITHMIC * min(losses)
    y = Coordinate("y", "loss", from_zero=False, logarithmic=uneven)
    x = Coordinate("x", f"{case.workload.item}s")
    size = case.configuration.get("batch_size")
    title = f"{workload_name(case)} on {device}, batch_size {size}"
    shades = colours("line", [value["line"] for value in values], order)
    return Panel(title, x, (Line(y, faint=len(values) > 400),), tuple(values), shades, width=380)
