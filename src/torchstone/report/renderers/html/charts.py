"""Pictures of a page: a panel each as SVG, with the axes that it can be drawn over, and a table of its values.

Of vl-convert's SVG only what draws is kept, no id meets that of another picture, and neighbours have what they share
from a group around them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import msgspec
from markupsafe import Markup, escape

from torchstone.core import units
from torchstone.core.charts.drawing import import_vl_convert, svg_of
from torchstone.core.charts.vega_lite import Panel, Picture, Spec, channels, data_of, vega_lite
from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.units import plain
from torchstone.report.document import Chart, Column, Table
from torchstone.report.renderers.html.tables import Grid, grid
from torchstone.report.translation.language import localized

_MOST_ROWS = 120  # of a table of values: of more, as many that are evenly spaced
_WIDE = 520.0  # points: a picture that would not be readable on a phone
_MOST_BYTES = 30_000  # of a picture: a larger one is drawn over one kind of axes only
_MOST_POINTS, _FEWEST_POINTS = 90, 10  # of a panel and of a line, which tell their values where there are no dots
_MOST_OTHER_AXES = 6  # drawings of a page: each takes its time and place
_MOST_PANELS = 6  # of a picture, that are seen at once: two rows on a desk, what is asked for first
_MOST_GROUPS = 3  # that are named above what is folded
_DECADES = 0.5  # from the least value to the largest, from which on a logarithmic axis shows more
_AXES = {"": "linear", "x": "logarithmic x", "y": "logarithmic y", "xy": "logarithmic x and y"}


class Drawings:
    """Counts the drawings of a page: each has ids of its own, and only the first ones are offered over other axes.

    `rows`: the most that a table of values has.
    """

    def __init__(self, name: str = "", other_axes: int = _MOST_OTHER_AXES, rows: int = _MOST_ROWS) -> None:
        """`name`: what every id begins with, where the page has more than this; `other_axes`: drawings over those."""
        self.name, self.rows = name, rows
        self._numbers = count(1)
        self._left = other_axes

    def prefix(self) -> str:
        """Return what the ids of the next drawing begin with."""
        return f"{self.name}p{next(self._numbers)}-"

    def may_offer_more(self) -> bool:
        """Say whether a picture may be drawn once more over other axes, and count it."""
        self._left -= 1
        return self._left >= 0


class Plot(NamedTuple):
    """One drawing of a panel: over which axes."""

    axes: str
    svg: Markup


class Drawn(NamedTuple):
    """A panel: its drawings, the first of which is shown, and its values.

    `wide`: unreadable on a phone unless it is scrolled; `cells`: numbers stand on coloured cells; `left_out`: so many
    values are not in the table.
    """

    title: str
    plots: tuple[Plot, ...]
    wide: bool
    cells: bool
    values: Grid
    left_out: int


class Figure(NamedTuple):
    """A picture. `missing`: why it is not drawn, with what to type; None where it is.

    `panels` are shown, `folded` behind them, under the words `more`.
    """

    title: str
    subtitle: str
    says: str
    panels: tuple[Drawn, ...]
    missing: str | None
    folded: tuple[Drawn, ...]
    more: str


def figure(chart: Chart, drawn: Drawings) -> Figure:
    """Return the drawings of a chart, or its values and what to install for drawings. `drawn`: those of the page."""
    missing = None
    try:
        import_vl_convert()
    except MissingError as fault:
        missing = localized(str(fault))
    picture = chart.picture
    panels = []
    for panel in picture.panels:
        title = ": ".join(filter(None, (panel.group, panel.title, panel.subtitle)))
        is_drawn = missing is None and panel.layers
        label = f"{chart.says} {title}".strip()
        plots, wide = _plots(picture, panel, label, drawn) if is_drawn else ((), False)
        words = f"{localized('values')}: {title or picture.title or chart.name}"
        values, left_out = _values(panel, words, drawn.rows)
        cells = panel.channel("x")["type"] == panel.channel("y")["type"] == "nominal"
        panels.append(Drawn(title, plots, wide, cells, values, left_out))
    most = _MOST_PANELS if len(panels) > _MOST_PANELS + 1 else len(panels)
    says = _below_title(picture.title, chart.says)
    shown, folded, more = tuple(panels[:most]), tuple(panels[most:]), _more(picture.panels[most:])
    return Figure(picture.title, picture.subtitle, says, shown, missing, folded, more)


def _below_title(title: str, says: str) -> str:
    """Return what a picture says without the title that stands before it."""
    rest = "" if says == title else says.removeprefix(f"{title}: ")
    return rest[:1].upper() + rest[1:]


def _more(panels: Sequence[Panel]) -> str:
    """Return how many panels are folded, and of what."""
    groups = [name for name in dict.fromkeys(panel.group for panel in panels) if name]
    named = "; ".join(groups[:_MOST_GROUPS]) + ("; …" if len(groups) > _MOST_GROUPS else "")
    return localized("{0} more", len(panels)) + (f": {named}" if named else "")


# ── drawings ────────────────────────────────────────────────────────────────────────────────────────────────


def chart_specifications(charts: Sequence[Chart]) -> Iterator[Spec]:
    """Yield what a page of these charts draws, and at its end what it leaves out where a drawing is too large."""
    more: list[Spec] = []
    for picture in (chart.picture for chart in charts):
        for panel in (panel for panel in picture.panels if panel.layers):
            yield (spec := _alone(picture, panel))
            more += [_over(spec, along) for along in _broad(panel)]
    yield from more[:_MOST_OTHER_AXES]


def _alone(picture: Picture, panel: Panel) -> Spec:
    """Return the Vega-Lite specification of one panel of a picture."""
    view = {**panel.view, "layer": [*panel.layers, *_unseen(panel)]}
    bare = Panel("", view)  # words wrap in the page, not in an SVG
    return vega_lite(msgspec.structs.replace(picture, title="", subtitle="", panels=(bare,), columns=1))


def _plots(picture: Picture, panel: Panel, label: str, drawn: Drawings) -> tuple[tuple[Plot, ...], bool]:
    spec = _alone(picture, panel)
    unsaid = _unsaid(panel)
    first = inline(svg_of(spec), drawn.prefix(), label, unsaid)
    given = _logarithmic(panel)
    plots = [Plot(localized(_AXES[given]), first.markup)]
    for more in _broad(panel) if len(first.markup) <= _MOST_BYTES else ():
        if drawn.may_offer_more():
            axes = localized(_AXES["".join(sorted({*given, *more}))])
            file = svg_of(_over(spec, more))
            plots.append(Plot(axes, inline(file, drawn.prefix(), f"{label}, {axes}", unsaid).markup))
    return tuple(plots), first.width > _WIDE


def _unsaid(panel: Panel) -> frozenset[str]:
    """Return the columns that only say how marks are joined, stacked or placed: no value of a picture."""
    how = (own["field"] for name, own in channels(panel) if name in ("detail", "order"))
    return frozenset((*how, "_row", "_before"))


def _unseen(panel: Panel) -> Iterator[Spec]:
    """Yield unseen dots for lines without dots, which tell their values."""
    for layer in panel.layers:
        if "data" in layer or layer["mark"]["type"] != "line" or layer["mark"].get("point"):
            continue
        series: dict[Any, list[Any]] = {}
        for row in panel.values:
            series.setdefault(row.get(panel.channel("color").get("field", "")), []).append(row)
        most = max(_FEWEST_POINTS, _MOST_POINTS // max(1, len(series)))
        rows = [row for own in series.values() for row in own[:: math.ceil(len(own) / most)]]
        y = {"y": own} if (own := layer["encoding"].get("y")) else {}
        yield {"data": {"values": rows}, "mark": {"type": "point", "opacity": 0, "size": 60}, "encoding": y}


def _logarithmic(panel: Panel) -> str:
    """Return which axes of a panel are logarithmic: "x", "y", "xy" or ""."""
    return "".join(along for along in "xy" if panel.channel(along).get("scale", {}).get("type") == "log")


def _broad(panel: Panel) -> Iterator[str]:
    """Yield what else can be logarithmic, "x", "y" or "xy": where no value is 0 or less, and they differ much."""
    if not any(layer["mark"]["type"] == "bar" for layer in panel.layers):  # their lengths are compared from 0 on
        offered = [along for along in "yx" if along not in _logarithmic(panel) and _is_broad(panel, along)]
        yield from (*offered, *(["xy"] if len(offered) > 1 else []))


def _is_broad(panel: Panel, along: str) -> bool:
    columns = {own["field"] for name, own in channels(panel) if name in (along, f"{along}2") and "field" in own}
    found = [row[name] for row in data_of(panel) for name in columns if row.get(name) is not None]
    numbers = [one for one in found if isinstance(one, int | float) and math.isfinite(one) and one > 0]
    return len(numbers) == len(found) > 1 and math.log10(max(numbers) / min(numbers)) >= _DECADES


def _over(spec: Spec, along: str) -> Spec:
    """Return the specification of one panel over logarithmic scales along these axes."""
    (view,) = spec["concat"]
    channels = {name: _log(own) if name in along else own for name, own in view["encoding"].items()}
    return {**spec, "concat": [{**view, "encoding": channels}]}


def _log(channel: Spec) -> Spec:
    axis = {name: value for name, value in (channel.get("axis") or {}).items() if name != "tickMinStep"}
    return {**channel, "scale": {"type": "log", "nice": False, "padding": 8}, **({"axis": axis} if axis else {})}


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────


def _values(panel: Panel, label: str, most: int) -> tuple[Grid, int]:
    """Return the table of values, and how many rows it leaves out: of more than `most`."""
    rows, x = data_of(panel), panel.channel("x")
    titles = {own["field"]: own["title"] for own in (x, panel.channel("y"))}
    unsaid = _unsaid(panel)
    names = dict.fromkeys([x["field"], *(name for row in rows for name in row if name not in unsaid)])
    shown = rows
    if len(rows) > most:
        shown = [rows[n * len(rows) // most] for n in range(most)]
    columns = []
    for name in names if rows else ():
        cells = [row.get(name) for row in shown]
        words = all(isinstance(cell, str) or cell is None for cell in cells)
        title = titles.get(name) or localized(name.replace("_", " "))
        columns.append(Column(title, tuple(map(_cell, cells)), left=words and not all(map(_is_number, cells))))
    return grid(Table(tuple(columns)), label), len(rows) - len(shown)


def _is_number(cell: Scalar) -> bool:
    return isinstance(cell, str) and cell.isdecimal()  # places along an axis are words, batch sizes too


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return units.MISSING
    return units.significant(value, 4) if isinstance(value, float) else str(value)


# ── the SVG ───────────────────────────────────────────────────────────────────────────────────────────────────


_TAGS = frozenset((
    "svg", "g", "defs", "clipPath", "linearGradient", "stop", "path", "rect", "circle", "line", "text", "tspan",
))  # fmt: skip
_MARKS = frozenset(("path", "rect", "circle", "line"))  # which may tell their value
_LONG = ("line mark", "area mark")  # whose labels speak of their first point only
_ATTRIBUTES = frozenset((
    "id", "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "d", "dx", "dy",
    "transform", "clip-path", "offset", "stop-color", "gradientUnits", "fill", "fill-opacity", "stroke",
    "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin",
    "opacity", "text-anchor", "font-size", "font-weight", "font-style",
))  # fmt: skip
_INHERITED = frozenset((
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "text-anchor", "font-size",
    "font-weight", "font-style",
))  # fmt: skip
_RULE, _MOST_RULES = "rule mark", 200  # intervals of a picture that tell their ends
_GROUP = len("<g></g>")
_NUMBER = re.compile(r"(?<=: )-?\d+\.\d+(?=;|$| to )|(?<= to )-?\d+\.\d+(?=;|$)")
_DIGITS = re.compile(r"(\d)(?:\.0\d*|(\.\d)\d*)")  # a tenth of a point is enough
_POINTED_AT = re.compile(r"url\(#([^)]*)\)")
_GEOMETRY = frozenset(("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"))
_DOT = re.compile(r"M(\d[\d.]*),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0")
_MOVED = re.compile(r"translate\((-?\d[\d.]*),(-?\d[\d.]*)\)")
_NAMED = re.compile(r"([^;:]+): (.*)", re.DOTALL)  # a value that a mark tells, with its name
_ENDS = {"circle": (("cx",), ("cy",)), "line": (("x1", "x2"), ("y1", "y2"))}
_STRAIGHT = frozenset(("x1", "x2", "y1", "y2", *_INHERITED))  # what a line has that may be part of a path
# Attributes that say nothing (font-size: page.css).
_USUAL = frozenset((
    ("opacity", "1"), ("stroke-width", "1"), ("font-weight", "normal"), ("font-size", "11px"), ("clip-path", ""),
    ("transform", "translate(0,0)"), ("text-anchor", "start"), ("cx", "0"), ("cy", "0"), ("x1", "0"), ("x2", "0"),
    ("y1", "0"), ("y2", "0"),
))  # fmt: skip


class Svg(NamedTuple):
    """The markup, and its width in points."""

    markup: Markup
    width: float


def inline(file: str, prefix: str, label: str, unsaid: Collection[str] = ()) -> Svg:
    """Return what vl-convert drew as an element of a page: a picture named `label`, its ids behind `prefix`.

    Scripts, links, styles and whatever else does not draw are left out. A mark keeps what it tells of itself as
    `data-v`, "batch size: 8; ms: 3.2", but for the values named `unsaid`; of neighbours that tell the same names, the
    group around them has these, as `data-k`. Raises ValueError for what is no SVG.
    """
    try:
        root = ET.fromstring(file)  # noqa: S314  # vl-convert wrote it: it has no entities
    except ET.ParseError as fault:
        raise ValueError(f"no SVG: {fault}") from None
    width = float(root.get("viewBox", "0 0 0 0").split()[2])
    rules = [one for one in root.iter() if one.get("aria-roledescription") == _RULE]
    if len(rules) > _MOST_RULES:  # the dots that they belong to tell the same
        for one in rules:
            one.attrib.pop("aria-label", None)
    kept = _kept(root, prefix, unsaid)
    named = f'<svg role="img" aria-label="{escape(plain(label))}"'
    drawn = "".join(_element(kept)).replace("<svg", named, 1) if kept is not None else ""
    return Svg(Markup(drawn), width)  # noqa: S704  # every attribute and text of it is escaped below


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────


def _kept(one: ET.Element, prefix: str, unsaid: Collection[str], *, clips: bool = False) -> ET.Element | None:
    """Return an element as it is written; None where it draws nothing. `clips`: it is the shape that cuts others."""
    tag = one.tag.rpartition("}")[2]
    if tag not in _TAGS or not (clips or _is_seen(one, tag)):
        return None
    about = dict(one.attrib)
    if tag == "path" and (dot := _DOT.fullmatch(about.get("d", ""))):
        tag, about["r"] = "circle", dot[1]
        del about["d"]
    told = _mark_words(one, tag, unsaid)
    kept = ET.Element(tag, {"data-v": told} if told else {})
    kept.attrib |= {
        name: _short(name, value, prefix)
        for name, value in _positions(about, tag).items()
        if name in _ATTRIBUTES and (name, value) not in _USUAL
    }
    if tag in ("text", "tspan"):
        kept.text = one.text
    kept.extend(child for each in one if (child := _kept(each, prefix, unsaid, clips=tag == "clipPath")) is not None)
    return kept


def _is_seen(one: ET.Element, tag: str) -> bool:
    """Say whether an element draws something, or says what is not drawn."""
    if tag == "text":
        return one.get("opacity") != "0" and any(text.strip() for text in one.itertext())
    drawn = one.get("fill") or one.get("stroke") or one.get("aria-label")
    return tag != "path" or bool(one.get("d") and drawn)


def _short(name: str, value: str, prefix: str) -> str:
    if name in _GEOMETRY:
        return _DIGITS.sub(r"\1\2", value) if "." in value else value
    if name == "id":
        return f"{prefix}{value}"
    return _POINTED_AT.sub(rf"url(#{prefix}\1)", value) if "url(" in value else value


def _positions(about: dict[str, str], tag: str) -> dict[str, str]:
    """Return the attributes of a circle or line with coordinates in place of a translation, of all else as they are.

    Texts keep theirs: where a letter stands would be rounded otherwise.
    """
    moved = _MOVED.fullmatch(about.get("transform", "")) if tag in _ENDS else None
    if moved is None:
        return about
    found = {name: value for name, value in about.items() if name != "transform"}
    for names, by in zip(_ENDS[tag], moved.groups(), strict=True):
        for name in names:
            along = float(_short(name, by, "")) + float(_short(name, about.get(name, "0"), ""))
            found[name] = f"{along:.1f}"
    return found


def _mark_words(one: ET.Element, tag: str, unsaid: Collection[str]) -> str:
    """Return what a mark tells of itself, numbers with four digits; "" where that is nothing."""
    told, kind = one.get("aria-label", ""), one.get("aria-roledescription")
    if tag not in _MARKS or kind in _LONG:
        return ""
    if kind == _RULE:
        told = told.replace("; high: ", " to ")  # an interval is two values of one axis
    told = "; ".join(each for each in told.split("; ") if each.partition(": ")[0] not in unsaid)
    told = _NUMBER.sub(lambda found: units.significant(float(found[0]), 4), told)
    return plain(told.replace(" to ", f" {localized('to')} ") if kind == _RULE else told)


# ── as text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _element(one: ET.Element) -> Iterator[str]:
    attributes = _attributes(one.attrib.items())
    if one.tag in _MARKS and not len(one):
        yield f"<{one.tag}{attributes}/>"
        return
    bare = one.tag == "g" and not attributes
    if not bare:
        yield f"<{one.tag}{attributes}>"
    yield str(escape(plain(one.text or "")))
    for (same, names), alike in groupby(_joined(one), key=_shared):
        together = list(alike)
        around = _attributes(same)
        keys = _attributes([("data-k", "; ".join(names))]) if names else ""
        told = sum(len(name) + len(": ") for name in names)
        if (len(together) - 1) * len(around) + len(together) * told <= _GROUP + len(keys):
            yield from (text for child in together for text in _element(child))
            continue
        for child in together:
            for name, _ in same:
                del child.attrib[name]
            if names:
                child.attrib["data-v"] = "; ".join(value for _, value in _data_of(child))
        yield f"<g{keys}{around}>"
        yield from (text for child in together for text in _element(child))
        yield "</g>"
    if not bare:
        yield f"</{one.tag}>"


def _joined(parent: ET.Element) -> Iterator[ET.Element]:
    """Yield the children of an element, lines side by side that say nothing and look the same as one path."""
    for look, alike in groupby(parent, key=_look):
        together = list(alike)
        if look is None or len(together) < 2:
            yield from together
            continue
        path = ET.Element("path", {"d": "".join(map(_stroke, together)), **dict(look)})
        yield path


def _look(one: ET.Element) -> tuple[tuple[str, str], ...] | None:
    """Return how a straight line looks that may be drawn with others at once; None for all else."""
    if one.tag != "line" or "fill" in one.attrib or not _STRAIGHT.issuperset(one.attrib):
        return None
    return tuple((name, value) for name, value in one.attrib.items() if name in _INHERITED)


def _stroke(line: ET.Element) -> str:
    x1, x2, y1, y2 = (line.get(name, "0") for name in ("x1", "x2", "y1", "y2"))
    return f"M{x1},{y1}" + (f"V{y2}" if x1 == x2 else f"H{x2}" if y1 == y2 else f"L{x2},{y2}")


def _shared(one: ET.Element) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return what an element may have from a group around it: attributes, and the names of the values that it tells."""
    if one.tag not in (*_MARKS, "text") or (one.tag == "text" and one.get("fill") == "white"):  # not of the paper
        return (), ()
    unseen = [("opacity", "0")] if one.get("opacity") == "0" else []
    same = [(name, value) for name, value in one.attrib.items() if name in _INHERITED]
    return (*same, *unseen), tuple(name for name, _ in _data_of(one))


def _data_of(one: ET.Element) -> Sequence[tuple[str, str]]:
    """Return the values that a mark tells, by name; none where a part of it has no name."""
    found = [_NAMED.fullmatch(each) for each in one.get("data-v", "").split("; ")]
    return [(each[1], each[2]) for each in found if each is not None] if all(found) else []


def _attributes(about: Collection[tuple[str, str]]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in about)
