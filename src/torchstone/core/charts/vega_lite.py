"""A picture as Vega-Lite 5: all that decides how one looks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from torchstone.core.charts.palette import PALETTE
from torchstone.core.charts.picture import (
    Band,
    Bars,
    Cells,
    Coordinate,
    Divider,
    Dots,
    Failure,
    Guide,
    Interval,
    Kind,
    Level,
    Line,
    Mark,
    Panel,
    Picture,
    Reach,
    Stretch,
    Words,
)
from torchstone.core.charts.ticks import counted_numbers, round_numbers, whole_numbers
from torchstone.core.charts.word_rows import in_rows
from torchstone.core.plain_text import plain

Spec = dict[str, Any]
_INK, _ALARM, _MARKED, _SHADE = "#333333", "#b3261e", "#d62728", "#888888"
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
_RIM = {"stroke": "white", "strokeWidth": 4}
_SHORT = 4  # characters of names that stand upright below a matrix
_SPACING = 28
_MARGIN = 60  # points that an axis and its title take beside a panel
_SYMBOL = 34  # points around a name in a legend
_LEGEND = 360  # points, at most, of a name in a legend
_LETTER = {"title": 8.5, "panel": 6.8, "small": 5.8}  # points a letter, about; of a wide character twice that
_MOST_LINES = 3
_ROW = 12  # points a row of words beside lines
_WIDE = "\u1100"  # from here on characters may be twice as wide


def vega_lite(picture: Picture) -> Spec:
    """Return the Vega-Lite specification. Texts are printable: what a record brought cannot break a file."""
    whole: Spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _STYLE, "spacing": _SPACING}
    if picture.title:
        title = _title(picture.title, picture.subtitle, _width(picture.panels, picture.columns), "title")
        whole["title"] = {**title, "fontSize": 16, "offset": 14}
    groups = list(dict.fromkeys(panel.group for panel in picture.panels))
    if groups in ([], [""]):
        return _printable_spec({**whole, **_rows(picture.panels, picture)})
    own = {group: [panel for panel in picture.panels if panel.group == group] for group in groups}
    rows = [
        {"title": {**_title(group, "", _width(own[group], picture.columns), "panel"), "anchor": "start"},
         **_rows(own[group], picture)} for group in groups
    ]  # fmt: skip
    return _printable_spec({**whole, "vconcat": rows})


def _rows(panels: Sequence[Panel], picture: Picture) -> Spec:
    colour = "shared" if picture.one_legend else "independent"
    return {
        "columns": picture.columns, "concat": [_panel(panel) for panel in panels], "spacing": _SPACING,
        "resolve": {"scale": {"color": colour, "shape": colour, "y": "independent"}},
    }  # fmt: skip


def _panel(panel: Panel) -> Spec:
    title = _title(panel.title, panel.subtitle, _across(panel), "panel")
    marks = sorted(panel.marks, key=lambda mark: not isinstance(mark, Failure))  # their words hide no point of others
    return {
        **({"title": title if panel.subtitle else title["text"]} if panel.title else {}),
        "width": panel.width, "height": panel.height,
        "data": {"values": list(panel.values)}, "encoding": {"x": _x(panel.x, panel)},
        "layer": [layer for mark in marks for layer in _layers(mark, panel)],
    }  # fmt: skip


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _printable_spec(spec: Spec) -> Spec:
    return {key: _printable(value) for key, value in spec.items()}


def _printable(spec: Any) -> Any:
    if isinstance(spec, str):
        return spec if spec.isprintable() else plain(spec)
    if isinstance(spec, dict):
        return _printable_spec(spec)
    return [_printable(value) for value in spec] if isinstance(spec, list | tuple) else spec


def _width(panels: Sequence[Panel], columns: int) -> int:
    return sum(_across(panel) for panel in panels[: max(1, columns)])


def _across(panel: Panel) -> int:
    """Return about how wide a panel is, in points, with the names beside it."""
    ys = (getattr(mark, "y", None) for mark in panel.marks)
    names = [name for y in ys if isinstance(y, Coordinate) for name in y.places]
    return panel.width + _MARGIN + int(_LETTER["small"] * max(map(_letters, names), default=0))


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
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or ""


def _letters(text: str) -> int:
    """Return how many letters wide a text is: a wide character is two."""
    return len(text) + sum(character >= _WIDE for character in text)


# ── axes and colours ────────────────────────────────────────────────────────────────────────────────────────


def _x(along: Coordinate, panel: Panel) -> Spec:
    found: Spec = {"field": along.column, "type": str(along.kind), "title": _wrapped(along.title, panel.width, "small")}
    if along.kind == Kind.STEPS:
        found["axis"] = {"labelAngle": 0, "labelOverlap": "greedy"}
        if along.places:
            found["scale"] = {"domain": list(along.places)}
    elif along.kind == Kind.NAMES:
        longest = max(map(len, along.places), default=0)
        angle = 0 if longest <= _SHORT else -45
        found |= {"sort": list(along.places), "axis": {"labelAngle": angle, "ticks": False, "domain": False}}
    elif along.logarithmic and along.whole:
        found["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 16}
        found["axis"] = {"values": list(counted_numbers(along, panel)), "format": "d", "labelOverlap": "greedy"}
    elif along.logarithmic or along.ends is not None:
        found["scale"] = _scale(along)
        if along.ticks:
            found["axis"] = {"values": list(along.ticks), "format": "~g"}
    else:
        if along.whole:
            found["axis"] = {"tickMinStep": 1, "format": "d", **_values(whole_numbers(along, panel))}
        if not along.from_zero:
            found["scale"] = {"zero": False, "nice": False, "padding": 12}
    return found


def _y(along: Coordinate, panel: Panel) -> Spec:
    found: Spec = {"field": along.column, "type": str(along.kind)}
    found["title"] = _wrapped(along.title, panel.height, "small")
    if along.kind != Kind.NUMBERS:
        axis = {"ticks": False, "domain": False, "labelLimit": _LEGEND}
        return {**found, "sort": list(along.places), "axis": axis}
    if along.logarithmic and along.ends is not None:
        ticks = _values(round_numbers(*along.ends))
        return {**found, "scale": _scale(along), **({"axis": ticks} if ticks else {})}
    if along.logarithmic or along.ends is not None:
        return {**found, "scale": _scale(along)}
    return {**found, "scale": {"zero": True, "nice": True} if along.from_zero else {"zero": False}}


def _values(ticks: Sequence[float]) -> Spec:
    return {"values": list(ticks)} if ticks else {}


def _scale(along: Coordinate) -> Spec:
    ends: Spec = {"domain": list(along.ends), "nice": False} if along.ends is not None else {}
    return {"type": "log", **ends} if along.logarithmic else {"zero": False, **ends}


def _colour(panel: Panel) -> Spec:
    """Return the encoding of colours, with a legend where there is more than one; nothing where none was asked for."""
    if panel.colours is None:
        return {}
    names = panel.colours.names
    shades = panel.colours.shades or tuple(PALETTE[i % len(PALETTE)] for i in range(len(names)))
    longest = max(map(_letters, names), default=0) * _LETTER["small"] + _SYMBOL
    columns = max(1, min(len(names), int((panel.width + _MARGIN) / longest)))
    legend = {"orient": "bottom", "columns": columns, "labelLimit": _LEGEND, "symbolLimit": 0}
    return {"color": {
        "field": panel.colours.column, "type": "nominal", "title": None, "legend": legend if len(names) > 1 else None,
        "scale": {"domain": list(names), "range": list(shades)},
    }}  # fmt: skip


def _shape(panel: Panel) -> Spec:
    """Return the encoding of shapes, which stand in the legend of the colours; nothing where all are round."""
    if panel.colours is None or not panel.colours.shapes:
        return {}
    colour = _colour(panel)["color"]
    scale = {"domain": list(panel.colours.names), "range": list(panel.colours.shapes)}
    return {"shape": {**colour, "scale": scale}}


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────────


def _layers(mark: Mark, panel: Panel) -> Iterator[Spec]:
    match mark:
        case Line():
            yield from _line(mark, panel)
        case Dots():
            shape = _shape(panel)
            how = {"type": "point", "filled": True, **({"size": 60, "opacity": 1} if shape else {"size": 40})}
            yield {"mark": how, "encoding": {"y": _y(mark.y, panel), **_colour(panel), **shape}}
        case Interval() | Reach() | Band():
            yield _from_to(mark, panel)
            if isinstance(mark, Reach) and panel.x.ends is not None:
                yield from _arrows(mark, panel, panel.x.ends)
        case Bars():
            shares: Spec = {"stack": "normalize", "axis": {"format": ".0%"}} if mark.shares else {"stack": "zero"}
            high = {**_y(mark.y, panel), **shares}
            yield {"mark": {"type": "bar"}, "encoding": {"y": high, **_colour(panel), "order": {"field": mark.order}}}
        case Cells():
            yield from _cells(mark, panel)
        case Level() | Guide() | Stretch() | Divider() | Failure():
            yield from _of_own_values(mark, panel)
        case Words():
            text = {"type": "text", "align": "left", "dx": 7, "fontSize": 10, "color": _INK}
            said = {"y": _y(mark.y, panel), "text": {"field": mark.word}}
            if mark.aside:
                yield {"mark": text, "encoding": {**said, "x": {"value": panel.width}}}
                return
            yield {"mark": {**text, **_RIM}, "encoding": said}
            yield {"mark": text, "encoding": said}
        case _:
            assert_never(mark)


def _from_to(mark: Interval | Reach | Band, panel: Panel) -> Spec:
    """Return what reaches from one column to another: along y an interval, along x a reach or a band."""
    known = [{"filter": f"isValid(datum.{mark.low}) && isValid(datum.{mark.high})"}]
    if isinstance(mark, Interval):
        ends: Spec = {"y": {**_y(mark.y, panel), "field": mark.low}, "y2": {"field": mark.high}}
    else:
        ends = {"x": {**_x(panel.x, panel), "field": mark.low}, "x2": {"field": mark.high}, "y": _y(mark.y, panel)}
    how: Spec = {"type": "rule", "strokeWidth": 1.5}
    if isinstance(mark, Band):
        how = {"type": "area", "orient": "horizontal", "opacity": 0.2}
    if panel.x.ends is not None:
        how["clip"] = True
    return {"mark": how, "transform": known, "encoding": {**ends, **_colour(panel)}}


def _arrows(mark: Reach, panel: Panel, ends: tuple[float, float]) -> Iterator[Spec]:
    """Yield an arrow at each end of the axis that an interval goes beyond."""
    beyond = (f"datum.{mark.low} < {ends[0]}", f"datum.{mark.high} > {ends[1]}")
    for end, where, shape in zip(ends, beyond, ("triangle-left", "triangle-right"), strict=True):
        known = f"isValid(datum.{mark.low}) && isValid(datum.{mark.high}) && {where}"
        x = {"datum": end, "type": "quantitative"}
        how = {"type": "point", "filled": True, "size": 50, "shape": shape, "opacity": 1}
        encoding = {"x": x, "y": _y(mark.y, panel), **_colour(panel)}
        yield {"mark": how, "transform": [{"filter": known}], "encoding": encoding}


def _of_own_values(mark: Level | Guide | Stretch | Divider | Failure, panel: Panel) -> Iterator[Spec]:
    data: Spec = {"data": {"values": list(mark.values)}}
    top: Spec = {"type": "text", "align": "left", "dx": 4, "dy": 10 - panel.height / 2, "fontSize": 10}
    match mark:
        case Level():
            span = {"x": {**_x(panel.x, panel), "field": mark.start}, "x2": {"field": mark.end}}
            yield {**data, "encoding": {**span, "y": _y(mark.y, panel)},
                   "mark": {"type": "rule", "strokeWidth": 2, "color": _MARKED}}  # fmt: skip
        case Guide():
            how: Spec = {"type": "line", "strokeDash": [6, 4], **({} if panel.colours else {"color": _SHADE})}
            yield {**data, "mark": how, "encoding": {"y": _y(mark.y, panel), **_colour(panel)}}
        case Stretch():
            reach: Spec = {**_x(panel.x, panel), "field": mark.start}
            yield {**data, "mark": {"type": "rect", "color": _SHADE, "opacity": 0.18, "clip": True},
                   "encoding": {"x": reach, "x2": {"field": mark.end}}}  # fmt: skip
        case Divider():
            yield {**data, "mark": {"type": "rule", "strokeDash": [4, 4], "color": _MARKED}}
            said: Spec = {"text": {"field": mark.word}}
            for place, values in in_rows(mark, panel).items():
                aside: Spec = {"align": "right", "dx": -4} if place.before else {}
                how = {**top, **aside, "dy": top["dy"] + _ROW * place.row}
                yield {"data": {"values": list(values)}, "mark": how, "encoding": said}
        case Failure():
            upright: Spec = {"type": "text", "angle": 270, "align": "left", "color": _ALARM, "fontSize": 11}
            yield {**data, "mark": upright,
                   "encoding": {"y": {"value": panel.height - 8}, "text": {"field": mark.word}}}  # fmt: skip


def _line(mark: Line, panel: Panel) -> Iterator[Spec]:
    few = len({value[panel.x.column] for value in panel.values}) <= _FEW
    plain_colour = {} if panel.colours is not None else {"color": PALETTE[0]}
    dots: Spec | bool = {"size": 60, **plain_colour} if few and not mark.faint else False
    high = _y(mark.y, panel)
    thin: Spec = {"strokeWidth": 1, "opacity": 0.7} if mark.faint else {}
    pieces: Spec = {"detail": {"field": mark.piece, "type": "nominal"}} if mark.piece is not None else {}
    yield {"mark": {"type": "line", "point": dots, **plain_colour, **thin},
           "encoding": {"y": high, **_colour(panel), **pieces}}  # fmt: skip
    if mark.labelled:
        label = {"type": "text", "dy": -13, "color": _INK, "fontSize": 10}
        said = {"y": high, "text": {"field": mark.y.column, "type": "quantitative", "format": ".3s"}}
        yield {"mark": {**label, **_RIM}, "encoding": said}  # the line passes below it
        yield {"mark": label, "encoding": said}


def _cells(mark: Cells, panel: Panel) -> Iterator[Spec]:
    shade = {"field": mark.share, "type": "quantitative", "scale": {"scheme": "blues", "domain": [0, 1]},
             "legend": {"format": "%", "title": mark.title}}  # fmt: skip
    high = _y(mark.y, panel)
    yield {"mark": "rect", "encoding": {"y": high, "color": shade}}
    if mark.number is not None:
        dark = {"condition": {"test": f"datum.{mark.share} > 0.5", "value": "white"}, "value": "black"}
        yield {"mark": "text", "encoding": {"y": high, "text": {"field": mark.number}, "color": dark}}
