"""Charts of a run over its batch sizes: throughput and latency, the phases of a step, memory, energy; as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.phase import PHASES
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter

Row = Mapping[str, Scalar]

_MEMORY = ("peak_reserved_bytes", "peak_allocated_bytes", "peak_rss_bytes")
_LATENCY, _ENERGY = "latency_per_batch_p50_s", "energy_per_item_j"
_WIDTH, _HEIGHT = 320, 220
_COLUMNS = 3
_BATCH = {"field": "batch_size", "type": "ordinal", "title": "batch size", "axis": {"labelAngle": 0}}
_CONFIG = {"font": "sans-serif", "view": {"stroke": "transparent"}, "axis": {"grid": True, "gridColor": "#e5e5e5"}}


class Svg:
    """Draws Vega-Lite through vl-convert, which is imported only here."""

    describes = "charts over batch size: throughput, latency, step phases, memory, energy (needs vl-convert-python)"
    suffix = ".svg"
    folder = "analysis/batch_profile_charts"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            import vl_convert
        except ImportError as fault:
            raise MissingError("svg needs vl-convert-python: pip install 'torchstone[charts]'") from fault
        path.write_text(vl_convert.vegalite_to_svg(charts(run, rows)), encoding="utf-8")


def charts(run: Run, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the Vega-Lite specification: a line of charts for each workload. Raises UsageError: nothing to draw."""
    if rows and "throughput_low" not in rows[0]:
        raise UsageError("svg draws one point per case: leave out --rows")
    drawn: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        if row.get("throughput") is not None and row.get("batch_size") is not None:
            drawn.setdefault(tuple(row[key] for key in ("task", "model", "dataset", "device")), []).append(row)
    if not drawn:
        raise UsageError(f"run {run.head.run_id} has no case with a throughput and a batch size: nothing to draw")
    # The learning rate changes no speed, and often follows the batch size.
    axes = {axis for case in run.head.plan.cases for axis in case.configuration} - {"batch_size", "learning_rate"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": f"{run.head.name}, run {run.head.run_id}", "anchor": "start"},
        "config": _CONFIG,
        "vconcat": [_workload(which, some, axes) for which, some in drawn.items()],
    }


def _workload(which: tuple[Scalar, ...], rows: Sequence[Row], axes: set[str]) -> dict[str, Any]:
    task, model, data, device = which
    varying = [axis for axis in rows[0] if axis in axes and len({row.get(axis) for row in rows}) > 1]
    named = [{**row, "series": ", ".join(f"{axis} {row.get(axis)}" for axis in varying) or "all"} for row in rows]
    item = str(rows[0]["item"])
    drawn = [
        _figure(named, "throughput", "throughput", f"{item}s/s"),
        _figure(named, _LATENCY, "latency of a batch, median", "ms", 1e3), _phases(named), _memory(named),
        _figure(named, _ENERGY, f"energy of one {item}", "J"),
    ]  # fmt: skip
    return {
        "title": {"text": f"{task} {model} on {device}, data {data}", "anchor": "start"},
        "columns": _COLUMNS,
        "concat": [chart for chart in drawn if chart is not None],
        "resolve": {"scale": {"color": "independent"}},
    }


def _figure(
    rows: Sequence[Mapping[str, Any]], figure: str, title: str, unit: str, scale: float = 1.0
) -> dict[str, Any] | None:
    """Return a line over batch sizes with the interval of each point; None where the figure was not measured."""
    values = [
        {"batch_size": row["batch_size"], "series": row["series"], **_scaled(row, figure, scale)}
        for row in rows
        if row.get(figure) is not None
    ]
    if not values:
        return None
    high = {"field": "value", "type": "quantitative", "title": unit}
    ends = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    known = {"filter": "isValid(datum.low) && isValid(datum.high)"}
    return _chart(
        f"{title}, with its 95 % interval", values, {"mark": {"type": "line", "point": True}, "encoding": {"y": high}},
        {"mark": {"type": "rule", "strokeWidth": 1.5}, "transform": [known], "encoding": ends},
    )  # fmt: skip


def _scaled(row: Mapping[str, Any], figure: str, scale: float) -> dict[str, float | None]:
    columns = {"value": figure, "low": f"{figure}_low", "high": f"{figure}_high"}
    found = {name: row.get(column) for name, column in columns.items()}
    return {name: None if value is None else scale * value for name, value in found.items()}


def _memory(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    figure = next((name for name in _MEMORY if any(row.get(name) is not None for row in rows)), None)
    if figure is None:
        return None
    values = [
        {"batch_size": row["batch_size"], "series": row["series"], "gib": row[figure] / 2**30}
        for row in rows if row.get(figure) is not None
    ]  # fmt: skip
    where = "resident memory" if figure == "peak_rss_bytes" else "device memory"
    high = {"field": "gib", "type": "quantitative", "title": "GiB"}
    return _chart(f"peak {where}", values, {"mark": {"type": "line", "point": True}, "encoding": {"y": high}})


def _chart(title: str, values: Sequence[Mapping[str, Any]], *layers: Mapping[str, Any]) -> dict[str, Any]:
    series = list(dict.fromkeys(value["series"] for value in values))
    legend = {"orient": "bottom", "columns": 2, "labelLimit": 300, "symbolLimit": 0} if len(series) > 1 else None
    shades = {"field": "series", "type": "nominal", "sort": series, "title": None, "legend": legend}
    return {
        "title": title, "width": _WIDTH, "height": _HEIGHT, "data": {"values": list(values)},
        "encoding": {"x": _BATCH, "color": shades}, "layer": list(layers),
    }  # fmt: skip


def _phases(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Stack the phases of a step for the series with the highest throughput; None where they were not measured."""
    fastest = max(rows, key=lambda row: row["throughput"])["series"]
    values = [
        {"batch_size": row["batch_size"], "phase": phase, "place": place, "s": row[f"phase_{phase}_s"]}
        for row in rows if row["series"] == fastest
        for place, phase in enumerate(PHASES) if row.get(f"phase_{phase}_s") is not None
    ]  # fmt: skip
    if not values:
        return None
    shades = {"field": "phase", "type": "nominal", "sort": list(PHASES), "title": None,
              "legend": {"orient": "bottom", "columns": 6}}  # fmt: skip
    return {
        "title": "step phases" + (f" ({fastest})" if fastest != "all" else ""), "width": _WIDTH, "height": _HEIGHT,
        "data": {"values": values}, "mark": "bar",
        "encoding": {
            "x": _BATCH, "color": shades, "order": {"field": "place"},
            "y": {"field": "s", "type": "quantitative", "stack": "normalize", "title": "share of the step"},
        },
    }  # fmt: skip


PLUGIN: Exporter = Svg()
