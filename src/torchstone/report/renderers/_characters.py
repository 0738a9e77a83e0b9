"""A panel of a picture in characters: a line a place along x, its value as a dot, its interval as a bar beside it.

Of our own, as no library draws intervals and failures on a terminal without colours and without a screen to fill: a
row a batch size is as many lines as there are values, and each has its figures beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchstone.core import units
from torchstone.core.charts.picture import Failure, Line, Panel, Picture
from torchstone.core.plain_text import plain
from torchstone.report.renderers._text import cells, wrapped
from torchstone.report.translation.spoken import said

_DOT, _BAR, _LEFT, _RIGHT = "●", "─", "├", "┤"
_LEAST = 10  # cells of the line on which a dot is placed
_SPREAD = 8  # cells of "±12.3 %"


def characters(picture: Picture, width: int) -> Iterator[str]:
    """Yield the lines of those panels whose values stand over places, none wider than `width` cells."""
    if picture.title:
        yield from wrapped(picture.title, width)
    for panel in picture.panels:
        line = next((mark for mark in panel.marks if isinstance(mark, Line)), None)
        if line is not None and panel.x.places:
            yield ""
            yield from _panel(panel, line, width)


def _panel(panel: Panel, line: Line, width: int) -> Iterator[str]:
    what = "" if panel.title == line.y.title else panel.title
    heading = ", ".join(filter(None, (panel.group, what)))
    axes = said("{0} by {1}", line.y.title, panel.x.title)
    yield from wrapped(f"{heading}{': ' * bool(heading)}{axes}", width)
    curves = panel.colours.names if panel.colours is not None else ("",)
    column = panel.colours.column if panel.colours is not None else ""
    most = max((_high(value, line.y.column) for value in panel.values), default=0.0)
    if most <= 0.0:
        return
    for curve in curves:
        own = {str(v[panel.x.column]): v for v in panel.values if not column or v[column] == curve}
        if not own:
            continue
        if len(curves) > 1:
            yield from wrapped(curve, width, first="  ", rest="    ")
        yield from _rows(panel, line, own, most, width)
    failures = [mark for mark in panel.marks if isinstance(mark, Failure)]
    lost = [f"{value[panel.x.column]} {value[mark.word]}" for mark in failures for value in mark.values]
    if lost:
        yield from wrapped(f"{said('no value')}: {'; '.join(lost)}", width, first="  ", rest="    ")
    if panel.subtitle:
        yield from wrapped(panel.subtitle, width, first="  ", rest="    ")


def _rows(panel: Panel, line: Line, own: Mapping[str, Mapping[str, Any]], most: float, width: int) -> Iterator[str]:
    shown = {place: units.significant(own[place][line.y.column], 4) for place in panel.x.places if place in own}
    names, figures = max(map(cells, shown)), max(map(cells, shown.values()))
    room = width - 4 - names - 2 - figures - 1 - _SPREAD - 1
    for place, figure in shown.items():
        value = own[place]
        middle, low, high = value[line.y.column], value.get("low"), value.get("high")
        around = units.spread(middle, low, high)
        text = f"    {plain(place):>{names}}  {figure:>{figures}} {around:<{_SPREAD}}"
        yield (text + " " + _drawn(middle, low, high, most, room) if room >= _LEAST else text).rstrip()[:width]


def _high(value: Mapping[str, Any], column: str) -> float:
    high = value.get("high")
    return float(high if high is not None else value[column])


def _drawn(middle: float, low: float | None, high: float | None, most: float, room: int) -> str:
    """Return a line from 0 to the most: ├──●─┤ where there is an interval wider than a cell, else ●."""
    ends = (middle, middle if low is None else low, middle if high is None else high)
    at, first, last = (min(room - 1, max(0, round(end / most * (room - 1)))) for end in ends)
    line = [" "] * (last + 1)
    for place in range(first, last + 1):
        line[place] = _BAR
    if first < at:
        line[first] = _LEFT
    if last > at:
        line[last] = _RIGHT
    line[at] = _DOT
    return "".join(line)
