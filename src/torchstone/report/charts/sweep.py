"""The pictures of a diagnosis as Vega-Lite: one panel a device, a mark where a batch size had no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.analysis.sweep_table import DEVICE_MEMORY, HOST_MEMORY, Row
from torchstone.core.errors import UsageError
from torchstone.core.schema.phase import PHASES
from torchstone.core.schema.trial import Status

_WIDTH, _HEIGHT = 380, 260
_INK, _GREY, _ALARM = "#333333", "#bbbbbb", "#b3261e"
# Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
_SHADES = {
    "data": "#e69f00", "transfer": "#cc79a7", "forward": "#56b4e9", "backward": "#0072b2", "optimizer": "#009e73",
    "rest": _GREY,
}  # fmt: skip
_MEMORY_SHADES = {HOST_MEMORY: _SHADES["backward"], DEVICE_MEMORY: _SHADES["data"]}
_FROM_ZERO = {"zero": True, "nice": True}
_WORDS = {Status.OUT_OF_MEMORY: "out of memory", Status.UNSUPPORTED: "cannot be done"}
STYLE = {
    "font": "sans-serif", "view": {"stroke": "transparent"}, "background": "white", "padding": 12,
    "axis": {
        "gridColor": "#e5e5e5", "labelColor": _INK, "labelFontSize": 11, "titleColor": _INK,
        "titleFontWeight": "normal",
    },
    "title": {"anchor": "start", "color": _INK, "subtitleColor": "#666666"},
    "legend": {"labelColor": _INK, "labelFontSize": 11},
}  # fmt: skip
Spec = dict[str, Any]


def throughput(rows: Sequence[Row], subtitle: str) -> Spec:
    """Return items/s over batch size."""
    rate = {"field": "throughput", "type": "quantitative", "title": "samples/s", "scale": _FROM_ZERO}
    line = {"type": "line", "point": {"color": _SHADES["backward"], "size": 60}, "color": _SHADES["backward"]}
    label = {"type": "text", "dy": -13, "color": _INK, "fontSize": 10}
    halo = {**label, "stroke": "white", "strokeWidth": 4}  # the line passes below it
    said = {"y": rate, "text": {"field": "throughput", "type": "quantitative", "format": ".3s"}}
    layers: list[Spec] = [
        {"mark": line, "encoding": {"y": rate}}, {"mark": halo, "encoding": said}, {"mark": label, "encoding": said},
    ]  # fmt: skip
    panels = [_panel(device, own, _measured(own, "throughput"), layers) for device, own in _by_device(rows)]
    return _whole("Throughput by batch size", subtitle, panels)


def time_breakdown(rows: Sequence[Row], subtitle: str) -> Spec:
    """Return where the time of a step goes: in ms, and as shares."""
    panels = []
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "phase": phase, "place": place, "ms": 1e3 * float(spent)}
            for row in own for place, phase in enumerate(PHASES)
            if (spent := row.get(f"{phase}_s")) is not None
        ]  # fmt: skip
        shades = [phase for phase in PHASES if any(value["phase"] == phase for value in values)]
        colour = {
            "field": "phase", "type": "nominal", "title": None,
            "scale": {"domain": shades, "range": [_SHADES[phase] for phase in shades]},
            "legend": {"orient": "bottom", "columns": 6, "symbolType": "square"},
        }  # fmt: skip
        for title, stack, axis in (("ms a step", "zero", {}), ("share of the step", "normalize", {"format": ".0%"})):
            high = {
                "field": "ms", "type": "quantitative", "stack": stack, "title": title, "axis": axis,
                "scale": _FROM_ZERO,
            }  # fmt: skip
            shown = {"y": high, "color": colour, "order": {"field": "place"}}
            panels.append(_panel(f"{device}: {title}", own, values, [{"mark": {"type": "bar"}, "encoding": shown}]))
    return _whole("Where the time of a training step goes", subtitle, panels, columns=2)


def memory(rows: Sequence[Row], subtitle: str) -> Spec:
    """Return the peaks of host and device memory."""
    panels = []
    names = {HOST_MEMORY: "host (resident)", DEVICE_MEMORY: "device (reserved)"}
    kinds = {column: name for column, name in names.items() if any(row.get(column) is not None for row in rows)}
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "kind": kind, "mib": float(held) / 2**20}
            for row in own for column, kind in kinds.items() if (held := row.get(column)) is not None
        ]  # fmt: skip
        colour = {
            "field": "kind", "type": "nominal", "title": None, "legend": {"orient": "bottom", "symbolType": "circle"},
            "scale": {"domain": list(kinds.values()), "range": [_MEMORY_SHADES[column] for column in kinds]},
        }  # fmt: skip
        high = {"field": "mib", "type": "quantitative", "title": "peak, MiB", "scale": _FROM_ZERO}
        line = {"type": "line", "point": {"size": 60}}
        panels.append(_panel(device, own, values, [{"mark": line, "encoding": {"y": high, "color": colour}}]))
    return _whole("Memory by batch size", subtitle, panels)


def _by_device(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["batch_size"] is not None:  # a device that was skipped has none
            found.setdefault(str(row["device"]), []).append(row)
    measured = [(device, own) for device, own in found.items() if any(row["throughput"] is not None for row in own)]
    if not measured:
        raise UsageError("nothing was measured to the end: nothing to draw; .results() says why")
    return measured


def _measured(rows: Sequence[Row], column: str) -> list[Mapping[str, Any]]:
    return [{"batch": str(row["batch_size"]), column: row[column]} for row in rows if row[column] is not None]


def _panel(title: str, rows: Sequence[Row], values: Sequence[Mapping[str, Any]], layers: Sequence[Spec]) -> Spec:
    """Return one chart over the batch sizes of a device; those that failed have their place, and a word in it."""
    sizes = [str(row["batch_size"]) for row in sorted(rows, key=lambda row: int(row["batch_size"] or 0))]
    x = {
        "field": "batch", "type": "ordinal", "title": "batch size", "axis": {"labelAngle": 0},
        "scale": {"domain": list(dict.fromkeys(sizes))},
    }  # fmt: skip
    failed = [
        {"batch": str(row["batch_size"]), "word": _WORDS.get(Status(str(row["status"])), str(row["status"]))}
        for row in rows if row["status"] != Status.OK
    ]  # fmt: skip
    gone: Spec = {
        "data": {"values": failed}, "encoding": {"y": {"value": _HEIGHT - 8}, "text": {"field": "word"}},
        "mark": {"type": "text", "angle": 270, "align": "left", "color": _ALARM, "fontSize": 12},
    }  # fmt: skip
    return {
        "title": title, "width": _WIDTH, "height": _HEIGHT, "data": {"values": list(values)}, "encoding": {"x": x},
        "layer": [*layers, *([gone] if failed else [])],
    }  # fmt: skip


def _whole(title: str, subtitle: str, panels: Sequence[Spec], columns: int = 3) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": STYLE, "columns": columns,
        "title": {"text": title, "subtitle": subtitle, "fontSize": 16, "offset": 14}, "concat": list(panels),
        "resolve": {"scale": {"color": "shared", "y": "independent"}}, "spacing": 28,
    }  # fmt: skip
