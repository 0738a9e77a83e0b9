"""A picture as Vega-Lite 5: all that decides how one looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from torchstone.core.charts.picture import (
    Bars,
    Cells,
    Coordinate,
    Divider,
    Dots,
    Failure,
    Interval,
    Kind,
    Level,
    Line,
    Mark,
    Panel,
    Picture,
)

Spec = dict[str, Any]
_INK, _ALARM, _MARKED = "#333333", "#b3261e", "#d62728"
# Okabe and Ito's palette, which people with any kind of colour vision can tell apart.
_PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000")
_STYLE = {
    "font": "sans-serif", "view": {"stroke": "transparent"}, "background": "white", "padding": 12,
    "axis": {
        "gridColor": "#e5e5e5", "labelColor": _INK, "labelFontSize": 11, "titleColor": _INK,
        "titleFontWeight": "normal",
    },
    "title": {"anchor": "start", "color": _INK, "subtitleColor": "#666666"},
    "legend": {"labelColor": _INK, "labelFontSize": 11},
}  # fmt: skip
_FEW = 30  # places along x: with more, the dots of a line run into one another
_SHORT = 4  # characters of names that stand upright below a matrix
_SPACING = 28


def vega_lite(picture: Picture) -> Spec:
    """Return the Vega-Lite specification."""
    whole: Spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _STYLE, "spacing": _SPACING}
    if picture.title:
        subtitle = {"subtitle": picture.subtitle} if picture.subtitle else {}
        whole["title"] = {"text": picture.title, **subtitle, "fontSize": 16, "offset": 14}
    groups = list(dict.fromkeys(panel.group for panel in picture.panels))
    if groups in ([], [""]):
        return {**whole, **_rows(picture.panels, picture)}
    own = {group: [panel for panel in picture.panels if panel.group == group] for group in groups}
    return {**whole, "vconcat": [{"title": {"text": g, "anchor": "start"}, **_rows(own[g], picture)} for g in groups]}


def _rows(panels: Sequence[Panel], picture: Picture) -> Spec:
    colour = "shared" if picture.one_legend else "independent"
    return {
        "columns": picture.columns, "concat": [_panel(panel) for panel in panels], "spacing": _SPACING,
        "resolve": {"scale": {"color": colour, "y": "independent"}},
    }  # fmt: skip


def _panel(panel: Panel) -> Spec:
    title: str | Spec = {"text": panel.title, "subtitle": panel.subtitle} if panel.subtitle else panel.title
    return {
        **({"title": title} if title else {}), "width": panel.width, "height": panel.height,
        "data": {"values": list(panel.values)}, "encoding": {"x": _x(panel.x)},
        "layer": [layer for mark in panel.marks for layer in _layers(mark, panel)],
    }  # fmt: skip


# ── axes and colours ────────────────────────────────────────────────────────────────────────────────────────


def _x(along: Coordinate) -> Spec:
    found: Spec = {"field": along.column, "type": str(along.kind), "title": along.title}
    if along.kind == Kind.STEPS:
        found["axis"] = {"labelAngle": 0}
        if along.places:
            found["scale"] = {"domain": list(along.places)}
    elif along.kind == Kind.NAMES:
        longest = max(map(len, along.places), default=0)
        angle = 0 if longest <= _SHORT else -45
        found |= {"sort": list(along.places), "axis": {"labelAngle": angle, "ticks": False, "domain": False}}
    else:
        if along.whole:
            found["axis"] = {"tickMinStep": 1, "format": "d"}
        if not along.from_zero:
            found["scale"] = {"zero": False, "nice": False, "padding": 12}
    return found


def _y(along: Coordinate) -> Spec:
    found: Spec = {"field": along.column, "type": str(along.kind), "title": along.title}
    if along.kind == Kind.NUMBERS:
        return {**found, "scale": {"zero": True, "nice": True} if along.from_zero else {"zero": False}}
    return {**found, "sort": list(along.places), "axis": {"ticks": False, "domain": False}}


def _colour(panel: Panel) -> Spec:
    """Return the encoding of colours, with a legend where there is more than one; nothing where none was asked for."""
    if panel.colours is None:
        return {}
    names = panel.colours.names
    shades = panel.colours.shades or tuple(_PALETTE[i % len(_PALETTE)] for i in range(len(names)))
    columns = 6 if any(isinstance(mark, Bars) for mark in panel.marks) else 2
    legend = {"orient": "bottom", "columns": columns, "labelLimit": 300, "symbolLimit": 0} if len(names) > 1 else None
    return {"color": {
        "field": panel.colours.column, "type": "nominal", "title": None, "legend": legend,
        "scale": {"domain": list(names), "range": list(shades)},
    }}  # fmt: skip


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────


def _layers(mark: Mark, panel: Panel) -> Iterator[Spec]:
    match mark:
        case Line():
            yield from _line(mark, panel)
        case Dots():
            how = {"type": "point", "filled": True, "size": 40}
            yield {"mark": how, "encoding": {"y": _y(mark.y), **_colour(panel)}}
        case Interval():
            known = f"isValid(datum.{mark.low}) && isValid(datum.{mark.high})"
            ends = {"y": {**_y(mark.y), "field": mark.low}, "y2": {"field": mark.high}}
            yield {"mark": {"type": "rule", "strokeWidth": 1.5}, "transform": [{"filter": known}],
                   "encoding": {**ends, **_colour(panel)}}  # fmt: skip
        case Bars():
            shares: Spec = {"stack": "normalize", "axis": {"format": ".0%"}} if mark.shares else {"stack": "zero"}
            high = {**_y(mark.y), **shares}
            yield {"mark": {"type": "bar"}, "encoding": {"y": high, **_colour(panel), "order": {"field": mark.order}}}
        case Cells():
            yield from _cells(mark)
        case Level():
            span = {"x": {**_x(panel.x), "field": mark.start}, "x2": {"field": mark.end}, "y": _y(mark.y)}
            yield {"data": {"values": list(mark.values)}, "encoding": span,
                   "mark": {"type": "rule", "strokeWidth": 2, "color": _MARKED}}  # fmt: skip
        case Divider():
            data = {"data": {"values": list(mark.values)}}
            yield {**data, "mark": {"type": "rule", "strokeDash": [4, 4], "color": _MARKED}}
            top = {"type": "text", "align": "left", "dx": 4, "dy": 10 - panel.height / 2, "fontSize": 10}
            yield {**data, "mark": top, "encoding": {"text": {"field": mark.word}}}
        case Failure():
            upright = {"type": "text", "angle": 270, "align": "left", "color": _ALARM, "fontSize": 12}
            yield {"data": {"values": list(mark.values)}, "mark": upright,
                   "encoding": {"y": {"value": panel.height - 8}, "text": {"field": mark.word}}}  # fmt: skip
        case _:
            assert_never(mark)


def _line(mark: Line, panel: Panel) -> Iterator[Spec]:
    few = len({value[panel.x.column] for value in panel.values}) <= _FEW
    plain = {} if panel.colours is not None else {"color": _PALETTE[0]}
    dots: Spec | bool = {"size": 60, **plain} if few else False
    high = _y(mark.y)
    yield {"mark": {"type": "line", "point": dots, **plain}, "encoding": {"y": high, **_colour(panel)}}
    if mark.labelled:
        label = {"type": "text", "dy": -13, "color": _INK, "fontSize": 10}
        said = {"y": high, "text": {"field": mark.y.column, "type": "quantitative", "format": ".3s"}}
        yield {"mark": {**label, "stroke": "white", "strokeWidth": 4}, "encoding": said}  # the line passes below it
        yield {"mark": label, "encoding": said}


def _cells(mark: Cells) -> Iterator[Spec]:
    shade = {"field": mark.share, "type": "quantitative", "scale": {"scheme": "blues", "domain": [0, 1]},
             "legend": {"format": "%", "title": mark.title}}  # fmt: skip
    high = _y(mark.y)
    yield {"mark": "rect", "encoding": {"y": high, "color": shade}}
    if mark.number is not None:
        dark = {"condition": {"test": f"datum.{mark.share} > 0.5", "value": "white"}, "value": "black"}
        yield {"mark": "text", "encoding": {"y": high, "text": {"field": mark.number}, "color": dark}}
