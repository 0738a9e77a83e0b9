"""A run cut along one axis at a time: a table each, and below it the sentence that says what it shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from torchstone.analysis.advice.analyses import Analysis, Line, analyses
from torchstone.analysis.summary import RunSummary
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.cli._wording import point_words
from torchstone.core import units
from torchstone.core.schema.axis import scalar_word


def print_analyses(run: RunSummary, width: int | None = None) -> None:
    """Print every analysis that the run has two Cases for."""
    width = min(width or terminal_width(), 100)
    for one in analyses(run):
        where = f", {point_words(one.where)}" if one.where else ""
        print("\n" + plain(f"[{one.title.upper()}] {one.task} {one.model} on {one.device}{where}"))
        show(list(_columns(one)), width)
        print(textwrap.fill(plain(f"  {one.says}"), width, subsequent_indent="    "))


def _columns(one: Analysis) -> Iterator[Column]:
    rows = one.lines
    yield Column(one.by.replace("_", " "), [plain(scalar_word(row.value)) for row in rows], left=one.by == "bottleneck")
    if one.by == "bottleneck":
        yield Column("bounded by", [plain(row.bottleneck or "") for row in rows], left=True)
        yield Column("of the step", [units.quantity(row.share, "ratio") for row in rows])
        return
    if one.by == "model":
        yield Column("parameters", [f"{row.parameters:,.0f}" if row.parameters else "" for row in rows], 1)
    yield Column("items/s", [units.significant(row.throughput or 0.0, 4) for row in rows])
    yield Column("time an item", [units.quantity(row.time_per_item_s, "s") for row in rows], 1)
    wide = [units.is_wide(row.throughput_ratio or 0.0, row.ratio_low, row.ratio_high) for row in rows]
    yield Column("speed", [units.MISSING if w else _times(r.throughput_ratio) for r, w in zip(rows, wide, strict=True)])
    yield Column("[ ]", [_interval(row, first=row is rows[0]) for row in rows], 3)
    if any(row.efficiency is not None for row in rows):
        title = "FLOP/s" if one.by == "model" else "scaling\nefficiency"
        yield Column(title, [units.quantity(row.efficiency, "ratio") for row in rows], 2)
    yield Column("memory", [units.quantity(row.memory_bytes, "bytes") for row in rows], 1)
    yield Column("memory\ntimes", [_times(row.memory_ratio) for row in rows], 2)


def _times(ratio: float | None) -> str:
    return f"{ratio:.3g}×" if ratio is not None else units.MISSING


def _interval(row: Line, *, first: bool) -> str:
    return (
        ""
        if first or row.ratio_low is None or row.ratio_high is None
        else units.MISSING
        if units.is_wide(row.throughput_ratio or 0.0, row.ratio_low, row.ratio_high)
        else f"[{row.ratio_low:.3g}, {row.ratio_high:.3g}]"
    )
