"""Forest plots of slides: names, intervals and words beside each other, and as many rows as there is room for."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.report.document import Ratios
from torchstone.report.renderers._forest import Forest, Row, forest
from torchstone.report.renderers._measuring import lines
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx.slide import (
    ACROSS,
    LINE_HEIGHT,
    MARGIN,
    SIZES,
    Box,
    Plot,
    Style,
    dealt,
    line_of,
    width,
)

LABELS, SCALE, GAP = 320.0, 340.0, 12.0  # points of the names and of the scale, and between these and the words
WORDS = ACROSS - LABELS - SCALE - 2 * GAP
TICKS = LINE_HEIGHT * SIZES[Style.SMALL]
_MOST_ROWS = 40
_AROUND = 4.0  # points above and below the text of a row, together


def forest_of(part: Ratios) -> Forest | None:
    """Return the plot; None where there is no ratio."""
    return forest(part, _MOST_ROWS, lambda text, most: shortened(line_of(text), most))


def on_slides(found: Forest, first: float, others: float) -> Iterator[Plot]:
    """Yield a plot a slide, each at the height 0: the first one of at most a height, the others of another."""
    heights = [_height(row) for row in found.rows]
    for begin, end in dealt(heights, first - TICKS, others - TICKS):
        box = Box(MARGIN, 0.0, ACROSS, sum(heights[begin:end]) + TICKS)
        yield Plot(box, found._replace(rows=found.rows[begin:end]), tuple(heights[begin:end]), found.caption)


def least(found: Forest) -> float:
    """Return the height of the first three rows with the scale, for fewer of which no slide is begun."""
    return sum(_height(row) for row in found.rows[:3]) + TICKS


def _height(row: Row) -> float:
    size = SIZES[Style.SMALL]
    most = max(
        lines(text, room, lambda word: width(word, size)) for text, room in ((row.label, LABELS), (row.text, WORDS))
    )
    return most * LINE_HEIGHT * size + _AROUND
