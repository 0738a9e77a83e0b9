"""A run cut along one axis at a time, a table each with the sentence that it shows; and a sweep in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from torchstone.analysis.advice.analyses import Analysis, AnalysisLine, analyses, left_out
from torchstone.analysis.advice.insights import performance_summary
from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.schema.performance_summary import Extent
from torchstone.report.document import Column, Part, Role, Section, Table, Text
from torchstone.report.documents.wording import point_words, scalar_word

_NAMES = {
    "training_time": "time of a step", "throughput": "throughput", "loss_convergence": "loss convergence, a step",
}  # fmt: skip


def analysis_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section for every analysis that the run has two Cases for; what is left out says why."""
    gone = left_out(run)
    for one in analyses(run):
        about = Text(", ".join(filter(None, (f"{one.task} {one.model} on {one.device}", point_words(one.where)))))
        says = Text(one.says, Role.DETAIL)
        yield Section(one.title.upper(), (about, Table(tuple(_columns(one))), says, *_gone(gone.pop(one.title, None))))
    yield from (Section(title.upper(), tuple(_gone(why))) for title, why in gone.items())


def _gone(why: str | None) -> Iterator[Part]:
    if why is not None:
        yield Text(f"left out: {why}")


def _columns(one: Analysis) -> list[Column]:
    rows = one.lines
    of_what = one.by == "bottleneck"
    found = [Column(one.by.replace("_", " "), tuple(scalar_word(row.value) for row in rows), left=of_what)]
    if of_what:
        found.append(Column("bounded by", tuple(row.bottleneck or "" for row in rows), left=True))
        found.append(Column("of the step", tuple(units.quantity(row.share, "ratio") for row in rows)))
        return found
    if one.by == "model":
        found.append(Column("parameters", tuple(f"{row.parameters:,.0f}" if row.parameters else "" for row in rows), 1))
    found.append(Column("items/s", tuple(units.significant(row.throughput or 0.0, 4) for row in rows)))
    found.append(Column("time an item", tuple(units.quantity(row.time_per_item_s, "s") for row in rows), 1))
    speeds = (units.MISSING if _is_wide(row) else _times(row.throughput_ratio) for row in rows)
    found.append(Column("speed", tuple(speeds)))
    found.append(Column("[ ]", tuple(_interval(row, first=row is rows[0]) for row in rows), 3, of=len(found) - 1))
    if any(row.efficiency is not None for row in rows):
        title = "FLOP/s" if one.by == "model" else "scaling efficiency"
        found.append(Column(title, tuple(units.quantity(row.efficiency, "ratio") for row in rows), 2))
    found.append(Column("memory", tuple(units.quantity(row.memory_bytes, "bytes") for row in rows), 1))
    found.append(Column("memory times", tuple(_times(row.memory_ratio) for row in rows), 2))
    return found


def _times(ratio: float | None) -> str:
    return f"{ratio:.3g}×" if ratio is not None else units.MISSING


def _is_wide(row: AnalysisLine) -> bool:
    return units.is_wide(row.throughput_ratio or 0.0, row.ratio_low, row.ratio_high)


def _interval(row: AnalysisLine, *, first: bool) -> str:
    if first or row.ratio_low is None or row.ratio_high is None:
        return ""
    return units.MISSING if _is_wide(row) else f"[{row.ratio_low:.3g}, {row.ratio_high:.3g}]"


# ── a sweep of trainings: least, most and mean over its cases, and the mean at each value of an axis ────────────


def summary_parts(run: RunSummary) -> Iterator[Part]:
    """Yield, of each model, data and device with two trainings or more, a table of its figures, and means by axis."""
    for one in performance_summary(run):
        if one.cases < 2:
            continue
        of_what = f"{one.model} on {one.device}, data {one.data}, {one.cases} cases"
        yield Text(f"{of_what} (means over cases, whatever they are)")
        fields = {name: extent for field, name in _NAMES.items() if (extent := getattr(one, field)) is not None}
        if fields:
            yield Table(tuple(_extent_columns(fields)))
        for name, extent in fields.items():
            yield from (Text(f"{name}, {line}", Role.DETAIL) for line in _by(extent))


def _extent_columns(fields: Mapping[str, Extent]) -> Iterator[Column]:
    yield Column("", tuple(fields), left=True)
    for title in ("min", "max", "mean"):
        yield Column(title, tuple(units.quantity(getattr(extent, title), extent.unit) for extent in fields.values()))


def _by(extent: Extent) -> Iterator[str]:
    for field, means in msgspec.structs.asdict(extent).items():
        if isinstance(means, Mapping) and len(means) > 1:
            told = ", ".join(f"{value} {units.quantity(mean, extent.unit)}" for value, mean in means.items())
            yield f"{field.replace('_', ' ')}: {told}"
