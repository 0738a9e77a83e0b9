"""Ratios as a forest plot: intervals on a logarithmic scale around 1, with the band of the equivalence margin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torchstone.core import units
from torchstone.report.document import Ratio, Ratios
from torchstone.report.renderers._measuring import breakable, glued
from torchstone.report.renderers._typeface import typeface
from torchstone.report.renderers.pdf.tables import Block, Drafting

_MOST_ROWS = 60
_FARTHEST = 32.0  # a ratio beyond which the scale ends
_TICKS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 32.0)
_LABELS, _SIZE = 165.0, 8.0  # points, as in pages.typ


def forest(part: Ratios, draft: Drafting) -> Iterator[Block]:
    """Yield the plot, beside each interval its ratio and verdict in words; nothing where there is no ratio."""
    rows = part.rows[:_MOST_ROWS]
    if not rows:
        return
    reach = _reach(rows, part.margin)
    tick = max((tick for tick in _TICKS if math.log(tick) <= reach), default=_TICKS[0])
    margin = math.log1p(part.margin)
    yield {
        "kind": "forest", "band": [_place(-margin, reach), _place(margin, reach)],
        "ticks": [{"at": _place(math.log(x), reach), "text": f"{x:.3g}"} for x in (1.0 / tick, 1.0, tick)],
        "rows": [_row(one, reach, draft) for one in rows],
    }  # fmt: skip
    more = f"; {len(part.rows) - len(rows)} more rows are in the table" if len(part.rows) > len(rows) else ""
    level, width = units.percent(part.level, 1).replace(".0", ""), units.quantity(part.margin, "ratio")
    told = f"ratio: candidate ÷ baseline, {level} confidence interval; shaded: the equivalence margin of {width}{more}"
    yield {"kind": "rest", "text": glued(told)}


def _row(one: Ratio, reach: float, draft: Drafting) -> Block:
    label = draft.text(f"{one.case}: {one.figure}", 120)
    ends = [_log(value) for value in (one.low, one.ratio, one.high)]
    text = units.ratio(one.ratio, one.low, one.high) if one.ratio is not None else units.MISSING
    return {
        "label": breakable(label, _LABELS, lambda word: typeface().width(word, _SIZE)),
        "text": f"{text}, {draft.text(one.verdict, 40)}", "verdict": draft.text(one.verdict, 40),
        "places": [None if end is None else _place(end, reach) for end in ends],
    }  # fmt: skip


def _log(value: float | None) -> float | None:
    return math.log(value) if value is not None and 0.0 < value < math.inf else None


def _reach(rows: Sequence[Ratio], margin: float) -> float:
    """Return how far the scale goes from 1 to both sides, as a logarithm: past every interval and the margin."""
    ends = [_log(value) for one in rows for value in (one.low, one.ratio, one.high)]
    widest = max([2.0 * math.log1p(margin), *(abs(end) for end in ends if end is not None)])
    return min(max(1.1 * widest, math.log(_TICKS[0])), math.log(_FARTHEST))


def _place(logarithm: float, reach: float) -> float:
    """Return where a logarithm stands: from 0 to 1."""
    return min(max(0.5 + 0.5 * logarithm / reach, 0.0), 1.0)
