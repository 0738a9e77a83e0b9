"""Words beside vertical lines, in rows: none covers another, and none reaches beyond the panel where it need not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torchstone.core.charts.picture import Divider, Panel

_LETTER = 5.8  # points, about; of a wide character twice that
_WIDE = "\u1100"  # from here on characters may be twice as wide
_GAP = 8.0  # points before and behind a word


class Place(NamedTuple):
    """Where words stand: `row` from the top, from 0; `before`: they end at their line, and do not begin there."""

    row: int
    before: bool


def in_rows(mark: Divider, panel: Panel) -> Mapping[Place, Sequence[Mapping[str, Any]]]:
    """Return the values of a mark by the place of their words, each in the highest row in which it has room."""
    column = panel.x.column
    told = [one.get(column) for one in (*panel.values, *mark.values)]
    across = [float(one) for one in told if isinstance(one, int | float)]
    if len(across) < len(told):
        return {Place(0, before=False): mark.values}
    least, most = min(across, default=0.0), max(across, default=0.0)
    points = panel.width / (most - least) if most > least else 0.0
    ends: list[float] = []  # of each row: how far it is taken
    found: dict[Place, list[Mapping[str, Any]]] = {}
    for value in sorted(mark.values, key=lambda one: one[column]):
        at, long = (value[column] - least) * points, _long(str(value[mark.word]))
        before = at + long > panel.width and at > panel.width / 2
        begin = at - long if before else at
        row = next((n for n, end in enumerate(ends) if end <= begin), len(ends))
        ends[row:] = [begin + long, *ends[row + 1 :]]
        found.setdefault(Place(row, before), []).append(value)
    return found


def _long(word: str) -> float:
    """Return about how long a word is, in points."""
    return _GAP + sum(_LETTER * (2 if letter >= _WIDE else 1) for letter in word)
