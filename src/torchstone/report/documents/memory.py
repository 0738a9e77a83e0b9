"""What fits which card as a Document: the answer in sentences, then the peak by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.memory_fit import FitRow, FitVerdict, MemoryAnswer
from torchstone.core import units
from torchstone.core.schema.case import Task, model_name
from torchstone.core.schema.metric import KINDS, PeakMemory
from torchstone.core.schema.trial import Outcome, Status
from torchstone.core.stats.peak_memory import MOST
from torchstone.report.charts.settings import memory_chart
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import Column, Document, Fields, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.documents.run_answer import point_words, scalar_word

_RANKS = {"weights": 2, "gradients": 3, "optimizer": 3, "activations": 2, "inputs": 5, "temporaries": 4, "workspace": 6}
_MEANS = {
    "weights": "parameters and buffers",
    "gradients": "of the parameters",
    "optimizer": "its moments and counts",
    "activations": "what the forward pass keeps for the backward pass",
    "inputs": "batches that lie on the card",
    "temporaries": "results used once, gradients of activations",
    "workspace": "what cuBLAS or hipBLAS works in",
    "reserved": "what torch's allocator takes from the card for all that, with gaps",
}
_OF_INFERENCE = {"activations": "all that the forward pass holds"}


def memory_document(answer: MemoryAnswer, first: str | None = None) -> Document:
    """Return what fits, how far the prediction can be trusted, and of what the peaks are. `first`: to begin with."""
    return Document("Memory", tuple(_parts(answer, first)))


def memory_json(answer: MemoryAnswer) -> Mapping[str, Any]:
    """Return what --json prints: the answer, with the verdict of each row."""
    rows = [{**msgspec.structs.asdict(row), "verdict": str(row.verdict)} for row in answer.rows]
    return {**msgspec.structs.asdict(answer), "rows": rows}


def _parts(answer: MemoryAnswer, first: str | None) -> Iterator[Part]:
    if first is not None:
        yield Text(first, Role.HEADLINE)
    sentence, *largest = _sentences(answer)
    yield Text(sentence, Role.HEADLINE if first is None else Role.BODY)
    yield from paragraphs(largest, Role.DETAIL)
    yield from paragraphs([*_shared(answer), _error(answer)])
    if len(answer.rows) == 1 and (peak := answer.rows[0].peak) is not None:
        yield _kinds(answer.rows[0], peak)
    elif answer.rows:
        named = _workloads(answer)
        for workload, rows in named.items():
            table = Table(tuple(_columns(answer, rows)))
            yield Section(workload, (table,)) if len(named) > 1 else table
        if words := _legend(answer.rows):
            yield Text(words)
    if (chart := memory_chart(answer)) is not None:
        yield Section("Pictures", (chart,))
    for why in dict.fromkeys(_why(row.why_not) for row in answer.rows if row.why_not is not None):
        yield Text(f"not predicted: {why}")
    for why in dict.fromkeys(text(row.fixed) for row in answer.rows if row.fixed is not None):
        yield Text(f"one batch size: {why}")


def _why(ended: Outcome) -> str:
    if ended.status == Status.OUT_OF_MEMORY:
        return f"this host has too little memory to build the model ({ended.message})"
    return ended.message or str(ended.status)


# ── sentences ───────────────────────────────────────────────────────────────────────────────────────────────


def _sentences(answer: MemoryAnswer) -> Iterator[str]:
    """Yield the answer, and of several settings a line on the largest batch of each card and workload."""
    told = [row for row in answer.rows if row.peak is not None]
    if not told:
        yield "The memory of none of these settings can be predicted."
        return
    if len(answer.rows) == 1:
        yield _of_one(answer.rows[0])
        return
    fits = sum(row.verdict == FitVerdict.FITS for row in answer.rows)
    unknown = len(answer.rows) - len(told)
    more = f", {unknown} not predicted" if unknown else ""
    yield f"{fits} of {len(answer.rows)} settings fit{more}. The largest batch that leaves a tenth of the memory free:"
    for card, task, model in dict.fromkeys((row.card, row.task, row.model) for row in told):
        rows = [row for row in told if (row.card, row.task, row.model) == (card, task, model)]
        varied = _varied(answer, [row for row in answer.rows if (row.task, row.model) == (task, model)])
        ways = dict.fromkeys(_way(row, varied) for row in rows)
        yield f"{card}, {task} {model_name(model)}: {'; '.join(ways)}"


def _way(row: FitRow, axes: Sequence[str]) -> str:
    """Return the largest batch and the settings it goes with: "256 (precision bf16)"."""
    point = {axis: row.configuration.get(axis) for axis in axes if axis != "batch_size" and axis in row.configuration}
    return f"{_largest(row)} ({point_words(point)})" if point else _largest(row)


def _of_one(row: FitRow) -> str:
    peak = row.peak
    if peak is None:
        return f"{row.task} {model_name(row.model)}: not predicted."
    what = f"{row.task} {model_name(row.model)}, batch_size {peak.batch_size}"
    memory = f"{units.quantity(peak.allocated_bytes, 'bytes')} of {units.quantity(row.memory_bytes, 'bytes')}"
    words = {
        FitVerdict.FITS: "fits",
        FitVerdict.TIGHT: "may fit, with little to spare,",
        FitVerdict.TOO_LARGE: "does not fit",
    }
    text = f"{what} {words[row.verdict]} {_article(row.card)}: its peak is {memory}."
    if row.fixed is not None:
        return text
    if row.largest is None:
        return f"{text} Not even a batch of 1 leaves a tenth of the memory free."
    at = units.quantity(row.largest.allocated_bytes, "bytes")
    return f"{text} The largest batch that leaves a tenth of the memory free is {_largest(row)} ({at})."


def _article(card: str) -> str:
    return card if card.startswith("a ") else f"{'an' if card.startswith(('A', 'E', 'I', 'N')) else 'a'} {card}"


def _largest(row: FitRow) -> str:
    if row.fixed is not None:
        return units.MISSING
    if row.largest is None:
        return "none"
    size = row.largest.batch_size
    return f"{size:,} or more" if size >= MOST else str(size)


def _shared(answer: MemoryAnswer) -> Iterator[str]:
    """Yield the settings that all rows have, and those that all of one workload have: what the figures are true of."""
    first = answer.rows[0].configuration if answer.rows else {}
    aside = (*answer.axes, "batch_size")
    point = {axis: value for axis, value in first.items() if axis not in aside and value not in (None, "auto")}
    if point:
        yield f"{'All with' if len(answer.rows) > 1 else 'With'} {point_words(point)}."
    for workload, rows in _workloads(answer).items():
        aside = (*_varied(answer, rows), "batch_size")
        first = rows[0].configuration
        own = {axis: first[axis] for axis in answer.axes if axis not in aside and first.get(axis) not in (None, "auto")}
        if own:
            yield f"{workload} with {point_words(own)}."


def _error(answer: MemoryAnswer) -> str:
    half, most = (units.quantity(error, "ratio") for error in (answer.median_error, answer.usual_error))
    return (
        f"Predicted without the card. Error over {answer.checked} cases, against what a CPU's allocator counts: median "
        f"{half}, 90th percentile {most}; not checked on a card yet. Not included: the driver's own 0.3 to 0.6 GB and "
        "the workspaces of convolutions (docs/memory.md). Speed is not predicted."
    )


# ── of what a peak is ───────────────────────────────────────────────────────────────────────────────────────


def _kinds(row: FitRow, peak: PeakMemory) -> Section:
    """Return where in the step the peak of one setting is, and every part of it."""
    where = "update" if peak.phase == "optimizer" else f"{peak.phase} pass"
    sizes = {kind: peak.kinds[kind] for kind in KINDS if peak.kinds.get(kind)}
    if peak.reserved_bytes is not None:
        sizes["reserved"] = peak.reserved_bytes
    means = _means([row])
    facts = tuple((kind, f"{units.quantity(size, 'bytes')}, {means[kind]}") for kind, size in sizes.items())
    return Section(f"peak memory, in the {where}", (Fields(facts),))


def _legend(rows: Sequence[FitRow]) -> str:
    """Return what the parts of the rows are, in one line."""
    there = {kind for row in rows if row.peak is not None for kind, size in row.peak.kinds.items() if size}
    if any(row.peak is not None and row.peak.reserved_bytes is not None for row in rows):
        there.add("reserved")
    return "; ".join(f"{kind}: {means}" for kind, means in _means(rows).items() if kind in there)


def _means(rows: Sequence[FitRow]) -> Mapping[str, str]:
    return {**_MEANS, **_OF_INFERENCE} if {row.task for row in rows} == {Task.INFER} else _MEANS


def _workloads(answer: MemoryAnswer) -> Mapping[str, Sequence[FitRow]]:
    """Return the rows of each workload, by its name: a training has axes that an inference has not."""
    named: dict[str, list[FitRow]] = {}
    for row in answer.rows:
        named.setdefault(f"{row.task} {model_name(row.model)}", []).append(row)
    return named


def _varied(answer: MemoryAnswer, rows: Sequence[FitRow]) -> tuple[str, ...]:
    """Return the axes that have several values among the rows of one workload."""
    return tuple(axis for axis in answer.axes if len({row.configuration.get(axis) for row in rows}) > 1)


def _columns(answer: MemoryAnswer, rows: Sequence[FitRow]) -> Iterator[Column]:
    peaks = [row.peak for row in rows]
    yield Column("card", tuple(row.card for row in rows), left=True)
    for axis in (axis for axis in _varied(answer, rows) if axis != "batch_size"):
        yield Column(axis, tuple(scalar_word(row.configuration.get(axis, "")) for row in rows))
    yield Column("batch", tuple(scalar_word(row.configuration.get("batch_size", "")) for row in rows))
    yield Column("peak", tuple(_bytes(peak.allocated_bytes if peak else None) for peak in peaks))
    yield Column("of the card", tuple(_share(row) for row in rows), 1)
    yield Column("fits", tuple(str(row.verdict) for row in rows), left=True)
    yield Column("largest batch", tuple(_largest(row) if row.peak else units.MISSING for row in rows))
    for kind in KINDS:
        yield Column(kind, tuple(_bytes(peak.kinds.get(kind) if peak else None) for peak in peaks), _RANKS[kind])
    yield Column("peak in", tuple(peak.phase if peak else "" for peak in peaks), 4, left=True)
    yield Column("reserved", tuple(_bytes(peak.reserved_bytes if peak else None) for peak in peaks), 5)


def _bytes(value: float | None) -> str:
    return units.quantity(value, "bytes") if value else units.MISSING


def _share(row: FitRow) -> str:
    return units.quantity(row.peak.allocated_bytes / row.memory_bytes, "ratio") if row.peak else units.MISSING
