"""What trackers of experiments are given of a row: its settings as labels, its figures as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.metric import FIGURES

Point = tuple[dict[str, str], dict[str, float]]
_ENDS = ("_low", "_high")  # of the interval


def points(rows: Sequence[Mapping[str, Scalar]]) -> Iterator[Point]:
    """Yield (labels, figures) of each row that has figures; what is missing is left out. Raises UsageError for none."""
    found = [_point(row) for row in rows]
    measured = [(labels, figures) for labels, figures in found if figures]
    if not measured:
        raise UsageError("no figures in these rows: use --rows cases or --rows trials")
    yield from measured


def _point(row: Mapping[str, Scalar]) -> Point:
    figures: dict[str, float] = {}
    labels: dict[str, str] = {}
    for name, value in row.items():
        if _is_figure(name) and isinstance(value, int | float) and math.isfinite(value):
            figures[name] = float(value)
        elif value is not None and not _is_figure(name):
            labels[name] = str(value)
    return labels, figures


def _is_figure(name: str) -> bool:
    stem = next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)
    return stem in FIGURES or name.startswith("phase_")
