"""The history of a benchmark over commits as a picture: the product of the ratios, with its interval."""

from __future__ import annotations

from torchstone.analysis.ci.commit_history import Trace
from torchstone.core.charts.picture import Colours, Coordinate, Divider, Dots, Interval, Panel, Picture

_WIDTH, _HEIGHT, _MOST = 640, 200, 300
_SHADES = {
    "slower": "#d55e00", "faster": "#0072b2", "unchanged": "#666666", "undecided": "#e69f00", "others": "#bbbbbb",
}  # fmt: skip


def chart(trace: Trace) -> Picture:
    """Return the last 300 commits, oldest first; a vertical line where a chain of measured commits begins again."""
    steps = trace.steps[-_MOST:]
    values = tuple(
        {
            "commit": place, "change": 100.0 * (step.total - 1.0), "low": 100.0 * (step.low - 1.0),
            "high": 100.0 * (step.high - 1.0),
            "verdict": step.point.verdict if step.point.verdict in _SHADES else "others",
        }
        for place, step in enumerate(steps, 1)
    )  # fmt: skip
    shades = {name: shade for name, shade in _SHADES.items() if any(value["verdict"] == name for value in values)}
    colours = Colours("verdict", tuple(shades), tuple(shades.values()))
    breaks = tuple({"commit": place - 0.5, "what": "gap"} for place, step in enumerate(steps, 1) if step.begins)
    x = Coordinate("commit", "commit, oldest first", from_zero=False, whole=True)
    y = Coordinate("change", "change in time since the last gap (%)", from_zero=False)
    marks = (Interval(y), Dots(y), *((Divider("what", breaks[1:]),) if len(breaks) > 1 else ()))
    panel = Panel(
        trace.name[:80], x, marks, values, colours, subtitle="95 % confidence intervals", width=_WIDTH, height=_HEIGHT
    )
    return Picture("", (panel,), columns=1)
