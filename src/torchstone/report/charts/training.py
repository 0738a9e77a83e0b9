"""The confusion matrix as a picture: Vega-Lite through vl-convert, which is imported only here."""

from __future__ import annotations

from typing import Any

from torchstone.core.errors import MissingError
from torchstone.workflows.train.quality import TestMetrics

_CELL, _LEAST, _MOST = 44, 180, 900
_NUMBERED = 30  # with more classes than this, numbers no longer fit into their cells


def confusion_chart(metrics: TestMetrics) -> bytes:
    """Return a PNG: rows are what items are, columns what they were taken for; shades are shares of the row.

    Raises MissingError without vl-convert.
    """
    try:
        import vl_convert
    except ImportError as fault:
        raise MissingError("confusion_matrix.png needs vl-convert-python: pip install 'torchstone[charts]'") from fault
    return bytes(vl_convert.vegalite_to_png(specification(metrics), scale=2.0))


def specification(metrics: TestMetrics) -> dict[str, Any]:
    """Return the Vega-Lite specification."""
    names = [_short(name) for name in metrics.classes]
    values = [
        {"is": names[i], "taken for": names[j], "items": count, "share": count / max(1, sum(row))}
        for i, row in enumerate(metrics.confusion_matrix) for j, count in enumerate(row)
    ]  # fmt: skip
    side = min(_MOST, max(_LEAST, _CELL * len(names)))
    axis = {"labelAngle": 0 if max(map(len, names)) <= 4 else -45, "ticks": False, "domain": False}
    where = {
        "x": {"field": "taken for", "type": "nominal", "sort": names, "axis": axis},
        "y": {"field": "is", "type": "nominal", "sort": names, "axis": {"ticks": False, "domain": False}},
    }
    shade = {"field": "share", "type": "quantitative", "scale": {"scheme": "blues", "domain": [0, 1]},
             "legend": {"format": "%", "title": "of the row"}}  # fmt: skip
    layers: list[dict[str, Any]] = [{"mark": "rect", "encoding": {"color": shade}}]
    if len(names) <= _NUMBERED:
        dark = {"condition": {"test": "datum.share > 0.5", "value": "white"}, "value": "black"}
        layers.append({"mark": "text", "encoding": {"text": {"field": "items"}, "color": dark}})
    title = f"accuracy {metrics.accuracy:.1%} of {metrics.items:,} items"
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "title": {"text": title, "anchor": "start"},
        "config": {"font": "sans-serif", "view": {"stroke": "transparent"}}, "width": side, "height": side,
        "data": {"values": values}, "encoding": where, "layer": layers,
    }  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"
