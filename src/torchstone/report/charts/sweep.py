"""The pictures of a diagnosis: one panel a device, a word where a batch size had no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.analysis.sweep_table import DEVICE_MEMORY, HIGH, HOST_MEMORY, LOW, Row
from torchstone.core.charts.phase_colours import phase_colours
from torchstone.core.charts.picture import (
    Bars,
    Colours,
    Coordinate,
    Failure,
    Interval,
    Kind,
    Line,
    Mark,
    Panel,
    Picture,
)
from torchstone.core.errors import UsageError
from torchstone.core.schema.phase import PHASES
from torchstone.core.schema.trial import Status

_WIDTH, _HEIGHT = 380, 260
_WORDS = {Status.OUT_OF_MEMORY: "out of memory", Status.UNSUPPORTED: "cannot be done"}
_MEMORY_SHADES = {HOST_MEMORY: "#0072b2", DEVICE_MEMORY: "#e69f00"}  # also where one of them is not there


def throughput(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return items/s over batch size, with its interval; of a single trial it is said that there is none."""
    y = Coordinate("throughput", "samples/s")
    marks = (Interval(y, LOW, HIGH), Line(y, labelled=True))
    panels = [_panel(device, own, _measured(own), marks) for device, own in _by_device(rows)]
    is_known = any(row.get(LOW) is not None for row in rows)
    bars = "bars: 95 % confidence intervals over trials" if is_known else "one trial a case: no interval"
    return Picture("Throughput by batch size", tuple(panels), f"{subtitle}; {bars}")


def time_breakdown(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return where the time of a step goes: in ms, and as shares."""
    panels = []
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "phase": phase, "place": place, "ms": 1e3 * float(spent)}
            for row in own for place, phase in enumerate(PHASES)
            if (spent := row.get(f"{phase}_s")) is not None
        ]  # fmt: skip
        colours = phase_colours({value["phase"] for value in values})
        for title, shares in (("ms a step", False), ("share of the step", True)):
            bars = Bars(Coordinate("ms", title), order="place", shares=shares)
            panels.append(_panel(f"{device}: {title}", own, values, (bars,), colours))
    title = "Where the time of a training step goes"
    return Picture(title, tuple(panels), subtitle, columns=2, one_legend=True)


def memory(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return the peaks of host and device memory."""
    panels = []
    names = {HOST_MEMORY: "host (resident)", DEVICE_MEMORY: "device (reserved)"}
    kinds = {column: name for column, name in names.items() if any(row.get(column) is not None for row in rows)}
    colours = Colours("kind", tuple(kinds.values()), tuple(_MEMORY_SHADES[column] for column in kinds))
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "kind": kind, "mib": float(held) / 2**20}
            for row in own for column, kind in kinds.items() if (held := row.get(column)) is not None
        ]  # fmt: skip
        panels.append(_panel(device, own, values, (Line(Coordinate("mib", "peak, MiB")),), colours))
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
        for row in rows if row["throughput"] is not None
    ]  # fmt: skip


def _panel(
    title: str, rows: Sequence[Row], values: Sequence[Mapping[str, Any]], marks: tuple[Mark, ...],
    colours: Colours | None = None,
) -> Panel:  # fmt: skip
    """Return one chart over the batch sizes of a device; those that failed have their place, and a word in it."""
    sizes = [str(row["batch_size"]) for row in sorted(rows, key=lambda row: int(row["batch_size"] or 0))]
    x = Coordinate("batch", "batch size", Kind.STEPS, tuple(dict.fromkeys(sizes)))
    failed = tuple(
        {"batch": str(row["batch_size"]), "word": _WORDS.get(Status(str(row["status"])), str(row["status"]))}
        for row in rows if row["status"] != Status.OK
    )  # fmt: skip
    return Panel(
        title,
        x,
        (*marks, *((Failure("word", failed),) if failed else ())),
        tuple(values),
        colours,
        width=_WIDTH,
        height=_HEIGHT,
    )
