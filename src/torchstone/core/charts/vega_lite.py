"""Charts as Vega-Lite 5: axes, colours, marks, and all that decides how a chart looks.

A Panel is one Vega-Lite view whose layers share its axes and colours; a layer has only what differs, or null. A Picture
is several panels under one title. Who makes one chooses data and words.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from torchstone.core.schema import metric
from torchstone.core.units import plain

Spec = dict[str, Any]
Values = Sequence[Mapping[str, Any]]

# Okabe and Ito's palette (Color Universal Design, 2008): people with any kind of colour vision can tell them apart.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000")
# Colour and shape of a verdict, in the order of reading. No verdict is told by its colour alone.
VERDICTS = {
    "worse": ("#d55e00", "triangle-down"),
    "better": ("#0072b2", "triangle-up"),
    "unclear": ("#777777", "diamond"),
    "same": ("#009e73", "circle"),
}
OTHER_VERDICT = ("#333333", "square")
_PHASES = {
    metric.DATA: "#e69f00",
    metric.TRANSFER: "#cc79a7",
    metric.PREFILL: "#f0e442",
    metric.DECODE: "#d55e00",
    metric.FORWARD: "#56b4e9",
    metric.BACKWARD: "#0072b2",
    metric.OPTIMIZER: "#009e73",
    metric.REST: "#bbbbbb",
}
_INK, _ALARM, _MARKED, _SHADE = "#333333", "#b3261e", "#d62728", "#888888"
_SPACING = 28
_STYLE = {
    "font": "sans-serif",
    "view": {"stroke": "transparent"},
    "background": "white",
    "padding": 12,
    "mark": {"color": PALETTE[0]},
    "axis": {
        "gridColor": "#e5e5e5",
        "labelColor": _INK,
        "labelFontSize": 11,
        "titleColor": _INK,
        "titleFontWeight": "normal",
    },
    "title": {"anchor": "start", "color": _INK, "subtitleColor": "#666666"},
    "legend": {"labelColor": _INK, "labelFontSize": 11},
}
TIGHT: Spec = {"zero": False, "nice": False, "padding": 12}  # a scale from the least to the greatest
_FEW = 30  # places along x: with more, the dots of a line run into one another
_SHORT = 4  # characters of names that stand upright below a matrix
_MOST_WHOLE = 10  # numbers of an axis of which each is written
_MARGIN = 60  # points that an axis and its title take beside a panel
_SYMBOL = 34  # points around a name in a legend
_LABEL = 360  # points, at most, of a name along an axis or in a legend
_LETTER = {"title": 8.5, "panel": 6.8, "small": 5.8}  # points per letter, about; of a wide character twice that
_WIDE = "\u1100"  # from here on characters may be twice as wide
_MOST_LINES = 3


class Panel(msgspec.Struct, frozen=True):
    """One chart: a Vega-Lite view. `group`: neighbours of one group stand under this title."""

    title: str
    view: Spec
    subtitle: str = ""
    group: str = ""

    @property
    def values(self) -> Values:
        """The rows that all layers draw which have none of their own."""
        rows: Values = self.view["data"]["values"]
        return rows

    @property
    def layers(self) -> Sequence[Spec]:
        """What is drawn, from back to front."""
        layers: Sequence[Spec] = self.view["layer"]
        return layers

    def channel(self, name: str, layer: Spec | None = None) -> Spec:
        """Return the definition of x, y or color, of a layer if given; {}: there is none."""
        own = layer["encoding"].get(name, {}) if layer is not None and "encoding" in layer else {}
        return {} if own is None else {**self.view["encoding"].get(name, {}), **own}


class Picture(msgspec.Struct, frozen=True):
    """Panels in rows of `columns`. `one_legend`: they have colours in common."""

    title: str
    panels: tuple[Panel, ...]
    subtitle: str = ""
    columns: int = 3
    one_legend: bool = False


def panel(
    title: str,
    x: Spec,
    y: Spec,
    layers: Iterable[Spec],
    values: Values,
    color: Spec | None = None,
    *,
    subtitle: str = "",
    group: str = "",
    width: int = 320,
    height: int = 220,
) -> Panel:
    """Return a panel. Sizes are in points, without axes. Lines have dots where they are few."""
    few = len({row.get(x["field"]) for row in values}) <= _FEW
    dotted = {"point": {"size": 60}} if few else {}
    drawn = [
        {**one, "mark": {**dotted, **one["mark"]}} if one["mark"]["type"] == "line" and "data" not in one else one
        for one in layers
    ]
    encoding = {"x": x, "y": y, **({"color": color} if color is not None else {})}
    view = {
        "width": width,
        "height": height,
        "data": {"values": list(values)},
        "encoding": encoding,
        "layer": drawn,
    }
    return Panel(title, view, subtitle, group)


# ── axes and colours ────────────────────────────────────────────────────────────────────────────────────────


def steps(field: str, title: str, places: Sequence[str] = ()) -> Spec:
    """Return an axis of values side by side however far apart, such as batch sizes. `places`: all, with data or not."""
    scale = {"scale": {"domain": list(places)}} if places else {}
    axis = {"labelAngle": 0, "labelOverlap": "greedy"}
    return {"field": field, "type": "ordinal", "title": title, "axis": axis, **scale}


def name_axis(field: str, title: str, places: Sequence[str]) -> Spec:
    """Return an axis of names in their order."""
    angle = 0 if max(map(len, places), default=0) <= _SHORT else -45
    axis = {"labelAngle": angle, "ticks": False, "domain": False}
    return {"field": field, "type": "nominal", "title": title, "sort": list(places), "axis": axis}


def row_axis(field: str, title: str, places: Sequence[str]) -> Spec:
    """Return an axis of names from top to bottom in their order."""
    axis = {"ticks": False, "domain": False, "labelLimit": _LABEL}
    return {"field": field, "type": "nominal", "title": title, "sort": list(places), "axis": axis}


def number_axis(
    field: str, title: str, *, zero: bool = True, log: bool = False, ends: tuple[float, float] | None = None
) -> Spec:
    """Return an axis of numbers. `log`: logarithmic. `ends`: the least and the most that is shown."""
    scale: Spec = {"type": "log"} if log else {} if zero and ends is None else {"zero": False}
    scale |= {} if ends is None else {"domain": list(ends), "nice": False}
    return {"field": field, "type": "quantitative", "title": title, **({"scale": scale} if scale else {})}


def count_axis(field: str, title: str, values: Values) -> Spec:
    """Return an axis of whole numbers from the least to the greatest, each written where they are few.

    Vega would label a half of 1 and 2 as 2, too.
    """
    axis: Spec = {"tickMinStep": 1, "format": "d"}
    own = [row[field] for row in values]
    if own and max(own) - min(own) <= _MOST_WHOLE:
        axis["values"] = list(range(math.floor(min(own)), math.ceil(max(own)) + 1))
    return {**number_axis(field, title), "axis": axis, "scale": TIGHT}


def doubled(field: str, title: str, values: Iterable[int]) -> Spec:
    """Return an axis of counts on which equal ratios are equally long, with a number at each value."""
    axis = {"values": sorted(set(values)), "format": "d", "labelOverlap": "greedy"}
    scale = {"type": "log", "base": 2, "nice": False, "padding": 16}
    return {**number_axis(field, title), "axis": axis, "scale": scale}


def shaded(field: str, shades: Mapping[str, str], shapes: Sequence[str] = ()) -> Spec:
    """Return colours (#rrggbb) by name, in the order of the legend, which there is for several; or of dots, shapes."""
    legend = {"orient": "bottom", "labelLimit": _LABEL, "symbolLimit": 0} if len(shades) > 1 else None
    scale = {"domain": list(shades), "range": list(shapes or shades.values())}
    return {"field": field, "type": "nominal", "title": None, "legend": legend, "scale": scale}


def colours(field: str, shown: Iterable[str], among: Sequence[str]) -> Spec:
    """Return a colour for each name of `shown`: that of its place `among` all, so that it is the same elsewhere.

    Beyond eight names colours come again. A name that is not `among` them follows behind.
    """
    present = set(shown)
    order = enumerate(dict.fromkeys((*among, *shown)))
    return shaded(field, {name: PALETTE[place % len(PALETTE)] for place, name in order if name in present})


def phase_colours(measured: Collection[object]) -> Spec:
    """Return the colours of the phases among those measured, the same in every chart, in the order of the step."""
    return shaded("phase", {name: _PHASES[name] for name in metric.PHASES if name in measured})


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────


def line(piece: str | None = None, *, faint: bool = False) -> Spec:
    """Return a line. `piece`: a column; points whose values of it differ are not joined. `faint`: thin, no dots."""
    mark = {"type": "line", **({"point": False, "strokeWidth": 1, "opacity": 0.7} if faint else {})}
    return {"mark": mark, "encoding": {} if piece is None else {"detail": {"field": piece, "type": "nominal"}}}


def dots(shape: Spec | None = None) -> Spec:
    """Return points, of shapes that stand in the legend of the colours if given."""
    mark: Spec = {"type": "point", "filled": True, "size": 40}
    if shape is None:
        return {"mark": mark, "encoding": {}}
    return {"mark": {**mark, "size": 60, "opacity": 1}, "encoding": {"shape": shape}}


def interval_bar(low: str = "low", high: str = "high", along: str = "y", **mark: Any) -> Spec:
    """Return a bar from one column to another along y or x; nothing where either is missing."""
    return {
        "mark": {"type": "rule", "strokeWidth": 1.5, **mark},
        "transform": [{"filter": f"isValid(datum.{low}) && isValid(datum.{high})"}],
        "encoding": {along: {"field": low}, f"{along}2": {"field": high}},
    }


def band(*, clip: bool = False) -> Spec:
    """Return the area from `low` to `high` along x, over y: where a curve that rises may lie."""
    one = interval_bar("low", "high", "x")
    return {**one, "mark": {"type": "area", "orient": "horizontal", "opacity": 0.2, **({"clip": True} if clip else {})}}


def bars() -> Spec:
    """Return bars whose coloured parts are stacked, by rising `place`."""
    return {"mark": {"type": "bar"}, "encoding": {"order": {"field": "place"}}}


def share_axis(field: str, title: str) -> Spec:
    """Return the axis of bars that are each a whole."""
    return {**number_axis(field, title), "stack": "normalize", "axis": {"format": ".0%"}}


def cells(share: str, title: str, number: str | None = None) -> list[Spec]:
    """Return a matrix: each cell as dark as its share, 0 to 1. `number`: the column that is written into them."""
    scale = {"scheme": "blues", "domain": [0, 1]}
    legend = {"format": "%", "title": title}
    shade = {"field": share, "type": "quantitative", "scale": scale, "legend": legend}
    found: list[Spec] = [{"mark": {"type": "rect"}, "encoding": {"color": shade}}]
    if number is not None:
        dark = {"condition": {"test": f"datum.{share} > 0.5", "value": "white"}, "value": "black"}
        found.append({"mark": {"type": "text"}, "encoding": {"text": {"field": number}, "color": dark}})
    return found


def words(field: str) -> list[Spec]:
    """Return a short text right of each point, with a white rim, as lines may pass below."""
    return _rimmed({"align": "left", "dx": 7}, {"field": field})


def values_above(field: str) -> list[Spec]:
    """Return the values of a column above its points, with three digits."""
    return _rimmed({"dy": -13}, {"field": field, "type": "quantitative", "format": ".3s"})


def _rimmed(place: Spec, text: Spec) -> list[Spec]:
    mark, encoding = {"type": "text", "fontSize": 10, **place}, {"text": text, "color": {"value": _INK}}
    return [{"mark": {**mark, **rim}, "encoding": encoding} for rim in ({"stroke": "white", "strokeWidth": 4}, {})]


def aside(field: str) -> Spec:
    """Return a short text right of the panel, at the height of each point."""
    (_, text) = words(field)
    return {**text, "encoding": {**text["encoding"], "x": {"value": "width"}}}


def arrows(low: float, high: float) -> Iterator[Spec]:
    """Yield an arrow at each end of the x axis that an interval along x goes beyond."""
    for end, beyond, shape in ((low, f"low < {low}", "triangle-left"), (high, f"high > {high}", "triangle-right")):
        known = f"isValid(datum.low) && isValid(datum.high) && datum.{beyond}"
        mark = {"type": "point", "filled": True, "size": 50, "shape": shape, "opacity": 1}
        x = {"datum": end, "type": "quantitative"}
        yield {"mark": mark, "transform": [{"filter": known}], "encoding": {"x": x}}


def guide(values: Values) -> Spec:
    """Return a dashed line through points of its own: a limit, not a measurement."""
    return {"data": {"values": list(values)}, "mark": {"type": "line", "strokeDash": [6, 4]}}


def level_lines(start: str, end: str, values: Values) -> Spec:
    """Return horizontal lines from one x to another."""
    mark = {"type": "rule", "strokeWidth": 2}
    along = {"x": {"field": start}, "x2": {"field": end}, "color": {"value": _MARKED}}
    return {"data": {"values": list(values)}, "mark": mark, "encoding": along}


def stretches(values: Values) -> Spec:
    """Return parts of the x axis that are shaded from top to bottom, each `from` and `to` a place."""
    mark = {"type": "rect", "opacity": 0.18, "clip": True}
    along = {"x": {"field": "from"}, "x2": {"field": "to"}, "y": None, "color": {"value": _SHADE}}
    return {"data": {"values": list(values)}, "mark": mark, "encoding": along}


def dividers(values: Values) -> list[Spec]:
    """Return vertical lines, with the `word` of each beside its upper end.

    `_row`: so many rows lower, from 0; `_before`: on the left of its line.
    """
    data = {"values": list(values)}
    rule = {"mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": {"y": None, "color": {"value": _MARKED}}}
    if not any(row.get("word") for row in values):
        return [{"data": data, **rule}]
    side = {"align": "datum._before ? 'right' : 'left'", "dx": "datum._before ? -4 : 4"}
    mark = {"type": "text", "fontSize": 10, **{key: {"expr": expression} for key, expression in side.items()}}
    top = {"y": {"value": {"expr": "10 + 12 * (datum._row || 0)"}}, "color": {"value": "black"}}
    return [{"data": data, **rule}, {"data": data, "mark": mark, "encoding": {**top, "text": {"field": "word"}}}]


def failures(values: Values) -> list[Spec]:
    """Return a `word` at each place along x that has no value; nothing without values. Points are drawn over it."""
    mark = {"type": "text", "angle": 270, "align": "left", "dx": 8, "fontSize": 11}
    encoding = {"y": {"value": "height"}, "text": {"field": "word"}, "color": {"value": _ALARM}}
    return [{"data": {"values": list(values)}, "mark": mark, "encoding": encoding}] if values else []


def failed(one: Panel) -> Values:
    """Return the values of the failures of a panel."""
    return [row for layer in one.layers if layer["mark"].get("angle") for row in layer["data"]["values"]]


# ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────


def vega_lite(picture: Picture) -> Spec:
    """Return the Vega-Lite specification. Texts are printable: what a record brought cannot break a file."""
    whole: Spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _STYLE, "spacing": _SPACING}
    if picture.title:
        across = sum(map(_across, picture.panels[: max(1, picture.columns)]))
        whole["title"] = {**_title(picture.title, picture.subtitle, across, "title"), "fontSize": 16, "offset": 14}
    own: dict[str, list[Panel]] = {}
    for one in picture.panels:
        own.setdefault(one.group, []).append(one)
    if set(own) <= {""}:
        whole |= _rows(picture.panels, picture)
    else:
        whole["vconcat"] = [_group(name, some, picture) for name, some in own.items()]
    return {key: _printable(value) for key, value in whole.items()}


def _group(name: str, panels: Sequence[Panel], picture: Picture) -> Spec:
    across = sum(map(_across, panels[: max(1, picture.columns)]))
    return {"title": {**_title(name, "", across, "panel"), "anchor": "start"}, **_rows(panels, picture)}


def _rows(panels: Sequence[Panel], picture: Picture) -> Spec:
    colour = "shared" if picture.one_legend else "independent"
    return {
        "columns": picture.columns,
        "concat": [_view(one) for one in panels],
        "spacing": _SPACING,
        "resolve": {"scale": {"color": colour, "shape": colour, "y": "independent"}},
    }


def _view(one: Panel) -> Spec:
    """Return the view of a panel with its titles, wrapped as Vega cannot, and a legend of as many columns as fit."""
    view = one.view
    encoding = {name: _with_legend_columns(channel, view["width"]) for name, channel in view["encoding"].items()}
    for name, room in (("x", view["width"]), ("y", view["height"])):
        encoding[name] = {**encoding[name], "title": _wrapped(encoding[name]["title"], room, "small")}
    layers = [
        {
            **layer,
            "encoding": {
                name: _with_legend_columns(channel, view["width"]) for name, channel in layer["encoding"].items()
            },
        }
        if "encoding" in layer
        else layer
        for layer in view["layer"]
    ]
    title = _title(one.title, one.subtitle, _across(one), "panel")
    titled: Spec = {"title": title if one.subtitle else title["text"]} if one.title else {}
    return {**titled, **view, "encoding": encoding, "layer": layers}


def _with_legend_columns(channel: Any, width: int) -> Any:
    legend = channel.get("legend") if channel else None
    if not legend or legend.get("orient") != "bottom":
        return channel
    shown = channel["scale"]["domain"]
    longest = max(map(_letters, shown)) * _LETTER["small"] + _SYMBOL
    return {**channel, "legend": {**legend, "columns": max(1, min(len(shown), int((width + _MARGIN) / longest)))}}


def _across(one: Panel) -> int:
    """Return about how wide a panel is, in points, with the names beside it."""
    beside = one.channel("y").get("sort", ())
    width: int = one.view["width"]
    return width + _MARGIN + int(_LETTER["small"] * max(map(_letters, beside), default=0))


def _title(text: str, subtitle: str, width: int, size: str) -> Spec:
    below = {"subtitle": _wrapped(subtitle, width, "small")} if subtitle else {}
    return {"text": _wrapped(text, width, size), **below}


def _wrapped(text: str, width: int, size: str) -> str | list[str]:
    """Return text of one line, or where it is wider than so many points the lines it takes, three at most."""
    broad = _letters(text) / max(1, len(text))  # of a character, in letters
    most = max(8, int(width / (_LETTER[size] * max(1.0, broad))))
    if len(text) <= most:
        return text
    glued = plain(text).replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(glued, most, max_lines=_MOST_LINES, placeholder=" …")
    return [each.replace("\N{NO-BREAK SPACE}", " ") for each in lines] or ""


def _letters(text: str) -> int:
    """Return how many letters wide a text is: a wide character is two."""
    return len(text) + sum(character >= _WIDE for character in text)


def _printable(spec: Any) -> Any:
    if isinstance(spec, str):
        return spec if spec.isprintable() else plain(spec)
    if isinstance(spec, dict):
        return {key: _printable(value) for key, value in spec.items()}
    return [_printable(value) for value in spec] if isinstance(spec, list | tuple) else spec


# ── what a chart is made of ─────────────────────────────────────────────────────────────────────────────────


def data_of(one: Panel) -> list[Mapping[str, Any]]:
    """Return the rows of a panel, and those that its layers have of their own."""
    own = (row for layer in one.layers if "data" in layer for row in layer["data"]["values"])
    return [*one.values, *own]


def channels(one: Panel) -> Iterator[tuple[str, Spec]]:
    """Yield every channel of a panel and of its layers by its name; a layer's with what it has from the panel."""
    yield from one.view["encoding"].items()
    for layer in one.layers:
        yield from ((name, one.channel(name, layer)) for name, own in layer.get("encoding", {}).items() if own)


Points = Sequence[tuple[float, float]]

MOST_POINTS = 2000  # of a panel: more than its pixels
_KEPT = 4  # points of each part


def thinned(points: Points, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return at most `most` of the points (x, y), which ascend in x; all of them where they are so few.

    M4: cut into parts of equally many points, of each part the first, the least, the greatest and the last stay, in
    their order (Jugel, Jerzak, Hackenbroich & Markl, Proceedings of the VLDB Endowment 7(10), 2014). The first, the
    last, the least and the greatest of all are therefore always among them. Raises ValueError where `most` is under 4.
    """
    if most < _KEPT:
        raise ValueError(f"at least {_KEPT} points are kept: {most}")
    if len(points) <= most:
        return list(points)
    parts = most // _KEPT
    edges = [part * len(points) // parts for part in range(parts + 1)]
    found: list[tuple[float, float]] = []
    for begin, end in pairwise(edges):
        places = range(begin, end)
        least = min(places, key=lambda place: points[place][1])
        greatest = max(places, key=lambda place: points[place][1])
        found += [points[place] for place in sorted({begin, least, greatest, end - 1})]
    return found


def without_middle(text: str, most: int) -> str:
    """Return printable text of at most so many characters; a longer one loses its middle, as names differ at ends."""
    shown = " ".join(plain(text).split())
    if len(shown) <= most:
        return shown
    head = most // 2
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def short_names(names: Iterable[str], most: int = 40) -> Mapping[str, str]:
    """Return a short name for each; two that would be the same have a number behind."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        cut, number = without_middle(name, most), 2
        while cut in found.values():
            cut = f"{without_middle(name, most - 4)} ({number})"
            number += 1
        found[name] = cut
    return found
