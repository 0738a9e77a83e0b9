"""A panel of a picture in characters: a line a place along x, its value as a dot, its interval as a bar beside it.

Of our own, as no library draws intervals and failures on a terminal without colours and without a screen to fill: a
row a batch size is as many lines as there are values, and each has its figures beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchstone.core import units
from torchstone.core.charts.vega_lite import Panel, Picture, failed
from torchstone.core.units import plain
from torchstone.report.renderers._table import cell_width, wrapped
from torchstone.report.translation.language import localized

_DOT, _BAR, _LEFT, _RIGHT = "●", "─", "├", "┤"
_LEAST = 10  # cells of the line on which a dot is placed
_SPREAD = 8  # cells of "±12.3 %"


def characters(picture: Picture, width: int) -> Iterator[str]:
    """Yield the lines of those panels whose values stand over places, none wider than `width` cells."""
    if picture.title:
        yield from wrapped(picture.title, width)
    for panel in picture.panels:
        places = panel.channel("x").get("scale", {}).get("domain", ())
        if any(layer["mark"]["type"] == "line" for layer in panel.layers) and isinstance(next(iter(places), None), str):
            yield ""
            yield from _panel(panel, places, width)


def _panel(panel: Panel, places: Sequence[str], width: int) -> Iterator[str]:
    x, y, color = (panel.channel(name) for name in ("x", "y", "color"))
    what = "" if panel.title == y["title"] else panel.title
    heading = ", ".join(filter(None, (panel.group, what)))
    axes = localized("{0} by {1}", y["title"], x["title"])
    yield from wrapped(f"{heading}{': ' * bool(heading)}{axes}", width)
    curves = color["scale"]["domain"] if color else ("",)
    most = max((_high(value, y["field"]) for value in panel.values), default=0.0)
    if most <= 0.0:
        return
    for curve in curves:
        own = {str(v[x["field"]]): v for v in panel.values if not color or v[color["field"]] == curve}
        if not own:
            continue
        if len(curves) > 1:
            yield from wrapped(curve, width, first="  ", rest="    ")
        yield from _rows({place: own[place] for place in places if place in own}, y["field"], most, width)
    if lost := [f"{value[x['field']]} {value['word']}" for value in failed(panel)]:
        yield from wrapped(f"{localized('no value')}: {'; '.join(lost)}", width, first="  ", rest="    ")
    if panel.subtitle:
        yield from wrapped(panel.subtitle, width, first="  ", rest="    ")


def _rows(own: Mapping[str, Mapping[str, Any]], column: str, most: float, width: int) -> Iterator[str]:
    shown = {place: units.significant(value[column], 4) for place, value in own.items()}
    names, figures = max(map(cell_width, shown)), max(map(cell_width, shown.values()))
    room = width - 4 - names - 2 - figures - 1 - _SPREAD - 1
    for place, figure in shown.items():
        value = own[place]
        middle, low, high = value[column], value.get("low"), value.get("high")
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
