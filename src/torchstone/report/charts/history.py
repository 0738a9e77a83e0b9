"""Histories as a picture: the runs with their intervals, the levels, and what changed where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.recommend.case_history import Change, History, Point
from torchstone.core.charts.picture import Colours, Coordinate, Divider, Dots, Interval, Level, Panel, Picture
from torchstone.core.charts.thinning import thinned

_WIDTH, _HEIGHT, _MOST = 640, 160, 20
_MOST_POINTS = 400  # of a panel: an interval each
_MOST_CHANGES = 8  # words beside each other: the newest
_COUNTED = ("counted", "left out")
_COLOURS = Colours("counted", _COUNTED, ("#1f77b4", "#bbbbbb"))
_X = Coordinate("run", "run", from_zero=False, whole=True)


def chart(histories: Sequence[History]) -> Picture:
    """Return a chart for each of several runs, those with a change first, 20 in all."""
    drawn = [one for one in histories if len(one.points) > 1] or histories
    return Picture("", tuple(_one(history) for history in drawn[:_MOST]), columns=1, one_legend=True)


def _one(history: History) -> Panel:
    points = tuple(
        {"run": place + 1, "value": p.value, "low": p.low, "high": p.high, "counted": _COUNTED[not p.counted]}
        for place, p in _shown(history)
    )
    levels = tuple({"from": s.first + 1, "to": s.last + 1, "value": s.value} for s in history.segments)
    changes = tuple({"run": change.at + 0.5, "what": _what(change)} for change in history.changes[-_MOST_CHANGES:])
    y = Coordinate("value", f"{history.metric} ({history.unit})", from_zero=False)
    marks = (Interval(y), Dots(y), Level(y, "from", "to", levels), Divider("what", changes))
    return Panel(
        f"{history.task} {history.model} on {history.device}", _X, marks, points, _COLOURS,
        subtitle=f"case {history.case_id}, {history.host}", width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip


def _shown(history: History) -> Iterator[tuple[int, Point]]:
    """Yield the runs with their places; of many the extremes of each stretch (core/charts/thinning.py)."""
    kept = thinned([(float(place), p.value) for place, p in enumerate(history.points)], _MOST_POINTS)
    yield from ((round(place), history.points[round(place)]) for place, _ in kept)


def _what(change: Change) -> str:
    first = next((c for c in change.changed if c.throughout), None)
    named = f": {first.what} {first.before} → {first.after}" if first is not None else ""
    return f"{change.ratio.value:.3g}×{named}"[:60]
