"""What fits which card, in sentences; then the peak by kind, of one setting in lines, of several in a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from torchstone.cli._memory_parts import PARTS_INDENT, legend, parts
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.cli._wording import point_words, scalar_word
from torchstone.core import units
from torchstone.core.schema.case import model_name
from torchstone.core.schema.memory import KINDS
from torchstone.core.stats.largest_batch import MOST
from torchstone.workflows.memory.answer import Answer, Row, Verdict

_RANKS = {"weights": 2, "gradients": 3, "optimizer": 3, "activations": 2, "inputs": 5, "temporaries": 4, "workspace": 6}


def print_memory(answer: Answer, first: str | None = None, width: int | None = None) -> None:
    """Print it. `first`: a sentence to begin with."""
    width = width or terminal_width()
    for line in [*([first] if first else []), *_sentences(answer), *_shared(answer), _error(answer)]:
        print(_filled(line, width, "    " if line.startswith(" ") else ""))
    print()
    if len(answer.rows) == 1 and answer.rows[0].peak is not None:
        for line in parts(answer.rows[0]):
            print(_filled(line, width, " " * PARTS_INDENT))
    else:
        show(_columns(answer), width)
        if words := legend(answer.rows):
            print(_filled(words, width, "  "))
    for why in dict.fromkeys(row.why_not for row in answer.rows if row.why_not is not None):
        print(_filled(f"not told: {why}", width, "  "))
    for why in dict.fromkeys(row.fixed for row in answer.rows if row.fixed is not None):
        print(_filled(f"one batch size: {why}", width, "  "))


def document(answer: Answer) -> Mapping[str, Any]:
    """Return what --json prints."""
    rows = [{**msgspec.structs.asdict(row), "verdict": str(row.verdict)} for row in answer.rows]
    return {**msgspec.structs.asdict(answer), "rows": rows}


def _filled(text: str, width: int, indent: str) -> str:
    return textwrap.fill(plain(text), width, subsequent_indent=indent, break_on_hyphens=False)


def _sentences(answer: Answer) -> Iterator[str]:
    told = [row for row in answer.rows if row.peak is not None]
    if not told:
        yield "Nothing can be told of what was asked about."
        return
    if len(answer.rows) == 1:
        yield _of_one(answer.rows[0])
        return
    fits = sum(row.verdict == Verdict.FITS for row in answer.rows)
    unknown = len(answer.rows) - len(told)
    more = f", of {unknown} nothing can be told" if unknown else ""
    yield f"{fits} of {len(answer.rows)} settings fit{more}. The largest batch that leaves a tenth of the memory free:"
    for card, task, model in dict.fromkeys((row.card, row.task, row.model) for row in told):
        rows = [row for row in told if (row.card, row.task, row.model) == (card, task, model)]
        ways = dict.fromkeys(_way(row, answer.axes) for row in rows)
        yield f"  {card}, {task} {model_name(model)}: {'; '.join(ways)}"


def _way(row: Row, axes: tuple[str, ...]) -> str:
    """Return the largest batch and the settings it goes with: "256 (precision bf16)"."""
    point = {axis: row.configuration.get(axis) for axis in axes if axis != "batch_size" and axis in row.configuration}
    return f"{_largest(row)} ({point_words(point)})" if point else _largest(row)


def _of_one(row: Row) -> str:
    peak = row.peak
    if peak is None:
        return f"{row.task} {model_name(row.model)}: nothing can be told."
    what = f"{row.task} {model_name(row.model)}, batch_size {peak.batch_size}"
    memory = f"{units.quantity(peak.allocated_bytes, 'bytes')} of {units.quantity(row.memory_bytes, 'bytes')}"
    words = {Verdict.FITS: "fits", Verdict.TIGHT: "may fit, with little to spare,", Verdict.TOO_LARGE: "does not fit"}
    text = f"{what} {words[row.verdict]} {_article(row.card)}: its peak is {memory}."
    if row.fixed is not None:
        return text
    if row.largest is None:
        return f"{text} Not even a batch of 1 leaves a tenth of the memory free."
    at = units.quantity(row.largest.allocated_bytes, "bytes")
    return f"{text} The largest batch that leaves a tenth of the memory free is {_largest(row)} ({at})."


def _article(card: str) -> str:
    return card if card.startswith("a ") else f"{'an' if card[0] in 'AEIN' else 'a'} {card}"


def _largest(row: Row) -> str:
    if row.fixed is not None:
        return "–"
    if row.largest is None:
        return "none"
    size = row.largest.batch_size
    return f"{size:,} or more" if size >= MOST else f"{size:,}".replace(",", "")


def _shared(answer: Answer) -> Iterator[str]:
    """Yield the settings that all rows have: what the figures are true of."""
    first = answer.rows[0].configuration
    aside = (*answer.axes, "batch_size")
    point = {axis: value for axis, value in first.items() if axis not in aside and value not in (None, "auto")}
    if point:
        yield f"{'All with' if len(answer.rows) > 1 else 'With'} {point_words(point)}."


def _error(answer: Answer) -> str:
    half, most = (units.quantity(error, "ratio") for error in (answer.median_error, answer.usual_error))
    return (
        f"Predicted without the card. Of {answer.checked} cases checked against what a CPU's allocator counts, half "
        f"were within {half} and nine of ten within {most}; on a card it has not been checked yet. Not in it: the "
        "driver's own 0.3 to 0.6 GB and what convolutions work in (docs/memory.md). Nothing is said of speed."
    )


def _columns(answer: Answer) -> list[Column]:
    rows = answer.rows
    several = len({(row.task, row.model) for row in rows}) > 1
    columns = [Column("card", [row.card for row in rows], 0, left=True)]
    if several:
        columns.append(Column("what", [f"{row.task} {model_name(row.model)}" for row in rows], 0, left=True))
    axes = [axis for axis in answer.axes if axis != "batch_size"]
    columns += [Column(axis, [scalar_word(row.configuration.get(axis, "")) for row in rows], 0) for axis in axes]
    columns += [
        Column("batch", [scalar_word(row.configuration.get("batch_size", "")) for row in rows], 0),
        Column("peak", [_bytes(row.peak.allocated_bytes if row.peak else None) for row in rows], 0),
        Column("of the\ncard", [_share(row) for row in rows], 1),
        Column("fits", [str(row.verdict) for row in rows], 0, left=True),
        Column("largest\nbatch", [_largest(row) if row.peak else units.MISSING for row in rows], 0),
    ]
    for kind in KINDS:
        cells = [_bytes(row.peak.kinds.get(kind) if row.peak else None) for row in rows]
        columns.append(Column(kind, cells, _RANKS[kind]))
    columns.append(Column("highest in", [row.peak.phase if row.peak else "" for row in rows], 4, left=True))
    columns.append(Column("reserved", [_bytes(row.peak.reserved_bytes if row.peak else None) for row in rows], 5))
    return columns


def _bytes(value: float | None) -> str:
    return units.quantity(value, "bytes") if value else units.MISSING


def _share(row: Row) -> str:
    return units.quantity(row.peak.allocated_bytes / row.memory_bytes, "ratio") if row.peak else units.MISSING
