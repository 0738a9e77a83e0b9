"""The pictures of a diagnosis: one panel a device, a word where a batch size had no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.analysis.sweep_table import DEVICE_MEMORY, HIGH, HOST_MEMORY, LOW, Row
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, Spec
from torchstone.core.errors import UsageError
from torchstone.core.schema.metric import PHASES
from torchstone.core.schema.trial import Status

_WIDTH, _HEIGHT = 380, 260
_WORDS = {Status.OUT_OF_MEMORY: "out of memory", Status.UNSUPPORTED: "cannot be done"}
_MEMORY_SHADES = {HOST_MEMORY: "#0072b2", DEVICE_MEMORY: "#e69f00"}  # also where one of them is not there


def throughput(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return items/s over batch size, with its interval; of a single trial it is said that there is none."""
    marks = (vl.interval_bar(LOW, HIGH), vl.line(), *vl.values_above("throughput"))
    y = vl.number_axis("throughput", "samples/s")
    panels = [_panel(device, own, y, _measured(own), marks) for device, own in _by_device(rows)]
    is_known = any(row.get(LOW) is not None for row in rows)
    bars = "bars: 95 % confidence intervals over trials" if is_known else "one trial a case: no interval"
    return Picture("Throughput by batch size", tuple(panels), f"{subtitle}; {bars}")


def time_breakdown(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return where the time of a step goes: in ms, and as shares."""
    panels = []
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "phase": phase, "place": place, "ms": 1e3 * float(spent)}
            for row in own
            for place, phase in enumerate(PHASES)
            if (spent := row.get(f"{phase}_s")) is not None
        ]
        shades = vl.phase_colours({value["phase"] for value in values})
        for title, y in (("ms a step", vl.number_axis), ("share of the step", vl.share_axis)):
            panels.append(_panel(f"{device}: {title}", own, y("ms", title), values, (vl.bars(),), shades))
    title = "Where the time of a training step goes"
    return Picture(title, tuple(panels), subtitle, columns=2, one_legend=True)


def memory(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return the peaks of host and device memory."""
    panels = []
    names = {HOST_MEMORY: "host (resident)", DEVICE_MEMORY: "device (reserved)"}
    kinds = {column: name for column, name in names.items() if any(row.get(column) is not None for row in rows)}
    shades = vl.shaded("kind", {name: _MEMORY_SHADES[column] for column, name in kinds.items()})
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "kind": kind, "mib": float(held) / 2**20}
            for row in own
            for column, kind in kinds.items()
            if (held := row.get(column)) is not None
        ]
        panels.append(_panel(device, own, vl.number_axis("mib", "peak, MiB"), values, (vl.line(),), shades))
    return Picture("Memory by batch size", tuple(panels), subtitle, one_legend=True)


def _by_device(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["batch_size"] is not None:  # a device that was skipped has none
            found.setdefault(str(row["device"]), []).append(row)
    measured = [(device, own) for device, own in found.items() if any(row["throughput"] is not None for row in own)]
    if not measured:
        raise UsageError("nothing was measured to the end: nothing to draw; .results() says why")
    return measured


def _measured(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    return [
        {"batch": str(row["batch_size"]), **{name: row.get(name) for name in ("throughput", LOW, HIGH)}}
        for row in rows
        if row["throughput"] is not None
    ]


def _panel(
    title: str, rows: Sequence[Row], y: Spec, values: vl.Values, marks: Sequence[Spec], shades: Spec | None = None
) -> Panel:
    """Return one chart over the batch sizes of a device; those that failed have their place, and a word in it."""
    sizes = [str(row["batch_size"]) for row in sorted(rows, key=lambda row: int(row["batch_size"] or 0))]
    x = vl.steps("batch", "batch size", list(dict.fromkeys(sizes)))
    failed = [
        {"batch": str(row["batch_size"]), "word": _WORDS.get(Status(str(row["status"])), str(row["status"]))}
        for row in rows
        if row["status"] != Status.OK
    ]
    drawn = (*vl.failures(failed), *marks)
    return vl.panel(title, x, y, drawn, values, shades, width=_WIDTH, height=_HEIGHT)
