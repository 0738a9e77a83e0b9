"""The pictures of histories: runs, or commits, with their intervals, their levels, and what changed between these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchstone.analysis.ci import Trace
from torchstone.analysis.recommend.case_history import History, LevelChange, LevelPoint
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, thinned
from torchstone.storage.rows import settings_words

_WIDTH, _MOST = 640, 20
_MOST_POINTS, _MOST_COMMITS = 400, 300  # of a panel: an interval each
_MOST_CHANGES = 8  # words beside each other: the newest
_COUNTED = ("counted", "left out")
_SHADES = {"counted": "#1f77b4", "left out": "#bbbbbb"}
_VERDICTS = {
    "slower": "#d55e00",
    "faster": "#0072b2",
    "unchanged": "#666666",
    "undecided": "#e69f00",
    "others": "#bbbbbb",
}
_LETTER, _GAP = 5.8, 8.0  # points, about, of a letter of a change; before and behind its words


def history_chart(histories: Sequence[History]) -> Picture:
    """Return a chart for each of several runs, those with a change first, 20 in all."""
    drawn = [one for one in histories if len(one.points) > 1] or histories
    shown = drawn[:_MOST]
    is_left_out = any(not point.counted for one in shown for point in one.points)
    shades = _SHADES if is_left_out else {_COUNTED[0]: _SHADES[_COUNTED[0]]}  # of one shade there is no legend
    return Picture("", tuple(_one(history, shades) for history in shown), columns=1, one_legend=True)


def _one(history: History, shades: Mapping[str, str]) -> Panel:
    points = [
        {"run": place + 1, "value": p.value, "low": p.low, "high": p.high, "counted": _COUNTED[not p.counted]}
        for place, p in _shown(history)
    ]
    levels = [{"from": s.first + 1, "to": s.last + 1, "value": s.value} for s in history.segments]
    changes = [{"run": change.at + 0.5, "word": _what(change)} for change in history.changes[-_MOST_CHANGES:]]
    x = vl.count_axis("run", "run", points)
    y = vl.number_axis("value", f"{history.metric} ({history.unit})", zero=False)
    words = in_rows(changes, "run", range(1, len(history.points) + 1), _WIDTH)
    marks = (vl.interval_bar(), vl.dots(), vl.level_lines("from", "to", levels), *vl.dividers(words))
    title, subtitle = label(history), f"{history.device}, host {history.host} (case {history.case_id})"
    return vl.panel(
        title, x, y, marks, points, vl.shaded("counted", shades), subtitle=subtitle, width=_WIDTH, height=160
    )


def label(history: History) -> str:
    """Return a few words for a Case: task, model, batch size, and what is not as usual."""
    return ", ".join(filter(None, (f"{history.task} {history.model}", settings_words(history.configuration))))


def _shown(history: History) -> Iterator[tuple[int, LevelPoint]]:
    """Yield the runs with their places; of many the extremes of each stretch (core/charts/vega_lite.py)."""
    kept = thinned([(float(place), p.value) for place, p in enumerate(history.points)], _MOST_POINTS)
    yield from ((round(place), history.points[round(place)]) for place, _ in kept)


def _what(change: LevelChange) -> str:
    first = next((c for c in change.changed if c.throughout), None)
    named = f": {first.what} {first.before} → {first.after}" if first is not None else ""
    return f"{change.ratio.value:.3g}×{named}"[:60]


def in_rows(words: vl.Values, column: str, measured: Sequence[float], width: int) -> list[Mapping[str, Any]]:
    """Return words beside vertical lines, each in the highest `_row` in which it covers no other.

    `_before`: those that end at their line, since they would reach beyond the panel.
    """
    across = [*measured, *(one[column] for one in words)]
    least, most = min(across, default=0.0), max(across, default=0.0)
    points = width / (most - least) if most > least else 0.0
    ends: list[float] = []  # of each row: how far it is full
    found: list[Mapping[str, Any]] = []
    for one in sorted(words, key=lambda one: float(one[column])):
        at, long = (one[column] - least) * points, _GAP + _LETTER * len(one["word"])
        before = at + long > width and at > width / 2
        begin = at - long if before else at
        row = next((n for n, end in enumerate(ends) if end <= begin), len(ends))
        ends[row:] = [begin + long, *ends[row + 1 :]]
        found.append({**one, "_row": row, "_before": before})
    return found


def commits_chart(trace: Trace) -> Picture:
    """Return the last 300 commits, oldest first; a vertical line where a chain of measured commits begins again."""
    steps = trace.steps[-_MOST_COMMITS:]
    values = [
        {
            "commit": place,
            "change": 100.0 * (step.total.value - 1.0),
            "low": 100.0 * ((step.total.low or 0.0) - 1.0),
            "high": 100.0 * ((step.total.high or 0.0) - 1.0),
            "verdict": step.point.verdict if step.point.verdict in _VERDICTS else "others",
        }
        for place, step in enumerate(steps, 1)
    ]
    shades = {name: shade for name, shade in _VERDICTS.items() if any(value["verdict"] == name for value in values)}
    breaks = [{"commit": place - 0.5, "word": "gap"} for place, step in enumerate(steps, 1) if step.begins][1:]
    x = vl.count_axis("commit", "commit, oldest first", values)
    y = vl.number_axis("change", "change in time since the last gap (%)", zero=False)
    gaps = vl.dividers(in_rows(breaks, "commit", range(1, len(values) + 1), _WIDTH)) if breaks else ()
    marks, words = (vl.interval_bar(), vl.dots(), *gaps), "95 % confidence intervals"
    panel = vl.panel(trace.name[:80], x, y, marks, values, vl.shaded("verdict", shades), subtitle=words, width=_WIDTH)
    return Picture("", (panel,), columns=1)
