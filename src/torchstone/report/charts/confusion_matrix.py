"""The confusion matrix of a test as a picture."""

from __future__ import annotations

from torchstone.core.charts.drawing import as_png
from torchstone.core.charts.picture import Cells, Coordinate, Kind, Panel, Picture
from torchstone.workflows.train.quality import TestMetrics

_CELL, _LEAST, _MOST = 44, 180, 900
_NUMBERED = 30  # with more classes than this, numbers no longer fit into their cells


def confusion_chart(metrics: TestMetrics) -> bytes:
    """Return a PNG: rows are what items are, columns what they were taken for; shades are shares of the row.

    Raises MissingError without vl-convert.
    """
    return as_png(confusion(metrics))


def confusion(metrics: TestMetrics) -> Picture:
    """Return the picture."""
    names = tuple(map(_short, metrics.classes))
    if len(set(names)) < len(names):
        names = tuple(f"{number} {name}" for number, name in enumerate(names))
    values = tuple(
        {"is": names[i], "taken for": names[j], "items": count, "share": count / max(1, sum(row))}
        for i, row in enumerate(metrics.confusion_matrix) for j, count in enumerate(row)
    )  # fmt: skip
    side = min(_MOST, max(_LEAST, _CELL * len(names)))
    y = Coordinate("is", "is", Kind.NAMES, names)
    cells = Cells(y, "share", "of the row", "items" if len(names) <= _NUMBERED else None)
    x = Coordinate("taken for", "taken for", Kind.NAMES, names)
    title = f"accuracy {metrics.accuracy:.1%} of {metrics.items:,} items"
    return Picture(title, (Panel("", x, (cells,), values, width=side, height=side),))


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"
