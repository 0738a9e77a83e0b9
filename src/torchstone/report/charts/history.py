"""Histories as a picture: the runs with their intervals, the levels, and what changed where they part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.analysis.recommend.history import Change, History

_WIDTH, _HEIGHT, _MOST = 640, 160, 20
_CONFIG = {"font": "sans-serif", "view": {"stroke": "transparent"}, "axis": {"grid": True, "gridColor": "#e5e5e5"}}
_COUNTED = ["counted", "left out"]
_X = {
    "field": "run",
    "type": "quantitative",
    "title": "run",
    "axis": {"tickMinStep": 1, "format": "d"},
    "scale": {"zero": False, "nice": False, "padding": 12},
}


def chart(histories: Sequence[History]) -> dict[str, Any]:
    """Return the Vega-Lite specification: a chart for each of several runs, those with a change first, 20 in all."""
    drawn = [one for one in histories if len(one.points) > 1] or histories
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _CONFIG,
        "vconcat": [_one(history) for history in drawn[:_MOST]],
    }  # fmt: skip


def _one(history: History) -> Mapping[str, Any]:
    points = [
        {"run": place + 1, "value": p.value, "low": p.low, "high": p.high, "counted": _COUNTED[not p.counted]}
        for place, p in enumerate(history.points)
    ]  # fmt: skip
    levels = [{"from": s.first + 1, "to": s.last + 1, "value": s.value} for s in history.segments]
    changes = [{"run": change.at + 0.5, "what": _what(change)} for change in history.changes]
    y = {
        "field": "value",
        "type": "quantitative",
        "title": f"{history.metric} ({history.unit})",
        "scale": {"zero": False},
    }
    shade = {"field": "counted", "type": "nominal", "title": None, "scale": {"range": ["#1f77b4", "#bbbbbb"],
             "domain": _COUNTED}}  # fmt: skip
    known = {"filter": "isValid(datum.low) && isValid(datum.high)"}
    return {
        "title": {"text": f"{history.task} {history.model} on {history.device}", "anchor": "start",
                  "subtitle": f"case {history.case_id}, {history.host}"},
        "width": _WIDTH, "height": _HEIGHT,
        "layer": [
            {"data": {"values": points}, "transform": [known], "mark": "rule",
             "encoding": {"x": _X, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": shade}},
            {"data": {"values": points}, "mark": {"type": "point", "filled": True, "size": 40},
             "encoding": {"x": _X, "y": y, "color": shade}},
            {"data": {"values": levels}, "mark": {"type": "rule", "strokeWidth": 2, "color": "#d62728"},
             "encoding": {"x": {**_X, "field": "from"}, "x2": {"field": "to"}, "y": y}},
            {"data": {"values": changes}, "mark": {"type": "rule", "strokeDash": [4, 4], "color": "#d62728"},
             "encoding": {"x": _X}},
            {"data": {"values": changes}, "mark": {"type": "text", "align": "left", "dx": 4, "dy": -70, "fontSize": 10},
             "encoding": {"x": _X, "text": {"field": "what"}}},
        ],
    }  # fmt: skip


def _what(change: Change) -> str:
    first = next((c for c in change.changed if c.throughout), None)
    named = f": {first.what} {first.before} → {first.after}" if first is not None else ""
    return f"{change.ratio:.3g}×{named}"[:60]
