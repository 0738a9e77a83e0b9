"""The predicted peak memory of settings by kind: weights, gradients, optimizer, activations, …, as stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Bars, Coordinate, Kind, Panel, Picture
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import model_name
from torchstone.core.schema.peak_memory import KINDS
from torchstone.report.document import Chart
from torchstone.workflows.memory.answer import USUAL_ERROR, Answer, Row

_MOST = 16  # bars
_WIDTH, _BAR, _HEIGHT = 160, 44, 240
_NAME = 32


def memory_chart(answer: Answer) -> Chart | None:
    """Return a bar for each setting whose peak was predicted, whatever the card; None where there is none."""
    rows: dict[str, Row] = {}
    for row in answer.rows:
        if row.peak is not None:
            rows.setdefault(_words(row, answer.axes), row)
    shown = dict(list(rows.items())[:_MOST])
    if not shown:
        return None
    names = short_names(shown, _NAME)
    values = tuple(_parts(shown, names))
    x = Coordinate("settings", "", Kind.NAMES, tuple(names.values()))
    bars = Bars(Coordinate("gib", "peak, GiB"), order="place")
    kinds = [kind for kind in KINDS if any(value["kind"] == kind for value in values)]
    width = _WIDTH + _BAR * len(shown)
    panel = Panel("", x, (bars,), values, colours("kind", kinds, KINDS), width=width, height=_HEIGHT)
    left = f"; {len(rows) - len(shown)} more settings are in the table" if len(rows) > len(shown) else ""
    within = f"within ±{100 * USUAL_ERROR:g} % of what the allocator counted in nine of ten checked cases"
    picture = Picture("Peak memory by kind", (panel,), f"predicted; {within}{left}", 1)
    return Chart("memory_by_kind", "Peak memory of each setting by kind", picture)


def _parts(rows: Mapping[str, Row], names: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    return [
        {"settings": names[words], "kind": kind, "place": place, "gib": row.peak.kinds[kind] / 2**30}
        for words, row in rows.items() if row.peak is not None
        for place, kind in enumerate(KINDS) if row.peak.kinds.get(kind)
    ]  # fmt: skip


def _words(row: Row, axes: Sequence[str]) -> str:
    point: Mapping[str, Scalar] = {axis: row.configuration.get(axis) for axis in axes if axis in row.configuration}
    told = [f"{axis} {scalar_word(value)}" for axis, value in point.items()]
    return ", ".join((model_name(row.model), *told))
