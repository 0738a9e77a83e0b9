"""Charts of a run over its batch sizes: throughput and latency, the phases of a step, memory, energy; as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.drawing import as_svg
from torchstone.core.charts.vega_lite import Panel, Picture, Spec
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar, followers
from torchstone.core.schema.metric import HOST_PEAK, PEAKS, PHASES
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter

Row = Mapping[str, Scalar]

_LATENCY, _ENERGY = "latency_per_batch_p50_s", "energy_per_item_j"
_BATCH = vl.steps("batch_size", "batch size")


class SvgExporter(Exporter):
    """Writes one picture of a run."""

    describes = "charts over batch size: throughput, latency, step phases, memory, energy (needs vl-convert-python)"
    suffix = ".svg"
    folder = "analysis/batch_profile_charts"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        path.write_text(as_svg(charts(run, rows)), encoding="utf-8")


def charts(run: Run, rows: Sequence[Row]) -> Picture:
    """Return the picture: a group of charts for each workload. Raises UsageError: nothing to draw."""
    if rows and "throughput_low" not in rows[0]:
        raise UsageError("svg draws one point per case: leave out --rows")
    drawn: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        if row.get("throughput") is not None and row.get("batch_size") is not None:
            drawn.setdefault(tuple(row[key] for key in ("task", "model", "dataset", "device")), []).append(row)
    if not drawn:
        raise UsageError(f"run {run.head.run_id} has no case with a throughput and a batch size: nothing to draw")
    aside = {"batch_size", *followers("batch_size")}
    axes = {axis for case in run.head.plan.cases for axis in case.configuration} - aside
    panels = tuple(panel for which, some in drawn.items() for panel in _workload(which, some, axes))
    return Picture(f"{run.head.name}, run {run.head.run_id}", panels)


def _workload(which: tuple[Scalar, ...], rows: Sequence[Row], axes: set[str]) -> list[Panel]:
    task, model, data, device = which
    group = f"{task} {model} on {device}, data {data}"
    varying = [axis for axis in rows[0] if axis in axes and len({row.get(axis) for row in rows}) > 1]
    named = [{**row, "series": ", ".join(f"{axis} {row.get(axis)}" for axis in varying) or "all"} for row in rows]
    item = str(rows[0]["item"])
    drawn = [
        _figure(group, named, "throughput", "throughput", f"{item}s/s"),
        _figure(group, named, _LATENCY, "latency of a batch, median", "ms", 1e3),
        _phases(group, named),
        _memory(group, named),
        _figure(group, named, _ENERGY, f"energy of one {item}", "J"),
    ]
    return [panel for panel in drawn if panel is not None]


def _figure(
    group: str, rows: Sequence[Mapping[str, Any]], figure: str, title: str, unit: str, scale: float = 1.0
) -> Panel | None:
    """Return a line over batch sizes with the interval of each point; None where the figure was not measured."""
    values = tuple(
        {"batch_size": row["batch_size"], "series": row["series"], **_scaled(row, figure, scale)}
        for row in rows
        if row.get(figure) is not None
    )
    if not values:
        return None
    marks, heading = (vl.line(), vl.interval_bar()), f"{title}, with its 95 % confidence interval"
    return vl.panel(heading, _BATCH, vl.number_axis("value", unit), marks, values, _colours(values), group=group)


def _scaled(row: Mapping[str, Any], figure: str, scale: float) -> dict[str, float | None]:
    columns = {"value": figure, "low": f"{figure}_low", "high": f"{figure}_high"}
    found = {name: row.get(column) for name, column in columns.items()}
    return {name: None if value is None else scale * value for name, value in found.items()}


def _memory(group: str, rows: Sequence[Mapping[str, Any]]) -> Panel | None:
    figure = next((name for name in PEAKS if any(row.get(name) is not None for row in rows)), None)
    if figure is None:
        return None
    values = tuple(
        {"batch_size": row["batch_size"], "series": row["series"], "gib": row[figure] / 2**30}
        for row in rows
        if row.get(figure) is not None
    )
    where = "resident memory" if figure == HOST_PEAK else "device memory"
    y, shades = vl.number_axis("gib", "GiB"), _colours(values)
    return vl.panel(f"peak {where}", _BATCH, y, (vl.line(),), values, shades, group=group)


def _colours(values: Sequence[Mapping[str, Any]]) -> Spec:
    return vl.colours("series", [value["series"] for value in values], ())


def _phases(group: str, rows: Sequence[Mapping[str, Any]]) -> Panel | None:
    """Stack the phases of a step for the series with the highest throughput; None where they were not measured."""
    fastest = max(rows, key=lambda row: row["throughput"])["series"]
    values = tuple(
        {"batch_size": row["batch_size"], "phase": phase, "place": place, "s": row[f"phase_{phase}_s"]}
        for row in rows
        if row["series"] == fastest
        for place, phase in enumerate(PHASES)
        if row.get(f"phase_{phase}_s") is not None
    )
    if not values:
        return None
    title = "step phases" + (f" ({fastest})" if fastest != "all" else "")
    y, shades = vl.share_axis("s", "share of the step"), vl.phase_colours({value["phase"] for value in values})
    return vl.panel(title, _BATCH, y, (vl.bars(),), values, shades, group=group)


PLUGIN: Exporter = SvgExporter()
