"""An SVG file of vl-convert as part of a page: only what draws is kept, and no id meets that of another picture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, product
from typing import NamedTuple
from xml.etree import ElementTree as ET

from markupsafe import Markup, escape

from torchstone.core import units
from torchstone.core.plain_text import plain
from torchstone.report.translation.spoken import said

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
_INHERITED = frozenset(("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"))
_RULE, _MOST_RULES = "rule mark", 200  # intervals of a picture that tell their ends
_FEWEST_ALIKE = 8  # marks side by side, for which a group around them is shorter
_NUMBER = re.compile(r"(?<=: )-?\d+\.\d+(?=;|$| to )|(?<= to )-?\d+\.\d+(?=;|$)")
_DIGITS = re.compile(r"(\d\.\d)\d+")  # a tenth of a point is enough
_POINTED_AT = re.compile(r"url\(#([^)]*)\)")
_GEOMETRY = frozenset(("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height"))
_DOT = re.compile(r"M(\d[\d.]*),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0")
# Attributes that say nothing (font-size: page.css).
_USUAL = frozenset((
    ("opacity", "1"), ("stroke-width", "1"), ("font-weight", "normal"), ("font-size", "11px"), ("clip-path", ""),
))  # fmt: skip


class Svg(NamedTuple):
    """The markup, and its width in points."""

    markup: Markup
    width: float


def inline(file: str, prefix: str, label: str) -> Svg:
    """Return what vl-convert drew as an element of a page: a picture named `label`, its ids behind `prefix`.

    Scripts, links, styles and whatever else does not draw are left out. A mark keeps what it tells of itself as
    `data-v`. Raises ValueError for what is no SVG.
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
    named = f'<svg role="img" aria-label="{escape(plain(label))}"'
    drawn = "".join(_element(root, prefix)).replace("<svg", named, 1)
    return Svg(Markup(drawn), width)  # noqa: S704  # every attribute and text of it is escaped below


def _element(one: ET.Element, prefix: str) -> Iterator[str]:
    tag = one.tag.rpartition("}")[2]
    if tag not in _TAGS:
        return
    if tag == "path" and (dot := _DOT.fullmatch(one.get("d", ""))):
        tag = "circle"
        one.set("r", _DIGITS.sub(r"\1", dot[1]))
        del one.attrib["d"]
    attributes = "".join(_attributes(one, tag, prefix))
    bare = tag == "g" and not attributes
    if tag in _MARKS and not len(one):
        yield f"<{tag}{attributes}/>"
        return
    if not bare:
        yield f"<{tag}{attributes}>"
    if one.text and tag in ("text", "tspan"):
        yield str(escape(plain(one.text)))
    seen = [child for child in one if tag == "clipPath" or _is_seen(child)]
    for same, alike in groupby(seen, key=_inherited):
        together = list(alike)
        if not same or len(together) < _FEWEST_ALIKE:
            yield from (text for child in together for text in _element(child, prefix))
            continue
        for child, (name, _) in product(together, same):
            del child.attrib[name]
        shared = "".join(_attributes(ET.Element("g", dict(same)), "g", prefix))
        yield f"<g{shared}>"
        yield from (text for child in together for text in _element(child, prefix))
        yield "</g>"
    if not bare:
        yield f"</{tag}>"


def _inherited(one: ET.Element) -> tuple[tuple[str, str], ...]:
    """Return what a mark may have from the group around it, for neighbours to share."""
    if one.tag.rpartition("}")[2] not in _MARKS:
        return ()
    return tuple((name, value) for name, value in one.attrib.items() if name in _INHERITED)


def _is_seen(one: ET.Element) -> bool:
    """Say whether an element draws something; a path without any colour does not."""
    drawn = one.get("fill") or one.get("stroke") or one.get("aria-label")
    return not one.tag.endswith("}path") or bool(one.get("d") and drawn)


def _attributes(one: ET.Element, tag: str, prefix: str) -> Iterator[str]:
    if told := _told(one, tag):
        yield f' data-v="{escape(plain(told))}"'
    for name, value in one.attrib.items():
        if name not in _ATTRIBUTES or (name, value) in _USUAL or (name == "transform" and value == "translate(0,0)"):
            continue
        kept = _DIGITS.sub(r"\1", value) if name in _GEOMETRY else value
        kept = f"{prefix}{kept}" if name == "id" else _POINTED_AT.sub(rf"url(#{prefix}\1)", kept)
        yield f' {name}="{escape(kept)}"'


def _told(one: ET.Element, tag: str) -> str:
    """Return what a mark tells of itself, numbers with four digits; "" where that is nothing."""
    told, kind = one.get("aria-label", ""), one.get("aria-roledescription")
    if tag not in _MARKS or kind in _LONG:
        return ""
    if kind == _RULE:
        told = told.replace("; high: ", " to ")  # an interval is two values of one axis
    told = _NUMBER.sub(lambda found: units.significant(float(found[0]), 4), told)
    return told.replace(" to ", f" {said('to')} ") if kind == _RULE else told
