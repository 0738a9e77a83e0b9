"""Where an axis has its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchstone.core.charts.picture import Coordinate, Failure, Panel

_MOST_WHOLE, _FEWEST_ROUND = 10, 3
_LEADING = ((1, 2, 5), tuple(range(1, 10)))  # digits of round numbers


def whole_numbers(along: Coordinate, panel: Panel) -> Sequence[int]:
    """Return every number from the least to the greatest that was counted; none where they are many.

    Vega would label a half of 1 and 2 as 2, too.
    """
    counted = [value[along.column] for value in panel.values if isinstance(value.get(along.column), int | float)]
    if not counted or max(counted) - min(counted) > _MOST_WHOLE:
        return ()
    return range(math.floor(min(counted)), math.ceil(max(counted)) + 1)


def counted_numbers(along: Coordinate, panel: Panel) -> Sequence[int]:
    """Return the numbers that were counted, and no other: those of points, and of words in their place."""
    failed = (value for mark in panel.marks if isinstance(mark, Failure) for value in mark.values)
    return sorted({int(value[along.column]) for value in (*panel.values, *failed)})


def round_numbers(low: float, high: float) -> Sequence[float]:
    """Return round numbers between two ends above 0, for a logarithmic axis; none where there are fewer than three.

    Vega leaves out the number of a power of ten where that of nine tenths is near.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leading in _LEADING:
        values = [float(f"{digit}e{power}") for power in powers for digit in leading]
        shown = [value for value in values if low <= value <= high]
        if len(shown) >= _FEWEST_ROUND:
            return shown
    return ()
