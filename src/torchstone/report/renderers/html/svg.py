"""An SVG file of vl-convert as part of a page: only what draws is kept, and no id meets that of another picture.

It is written short: what draws nothing is left out, and neighbours have what they share from a group around them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple
from xml.etree import ElementTree as ET

from markupsafe import Markup, escape

from torchstone.core import units
from torchstone.core.units import plain
from torchstone.report.translation.language import localized

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
                child.attrib["data-v"] = "; ".join(value for _, value in _values(child))
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
    return (*same, *unseen), tuple(name for name, _ in _values(one))


def _values(one: ET.Element) -> Sequence[tuple[str, str]]:
    """Return the values that a mark tells, by name; none where a part of it has no name."""
    found = [_NAMED.fullmatch(each) for each in one.get("data-v", "").split("; ")]
    return [(each[1], each[2]) for each in found if each is not None] if all(found) else []


def _attributes(about: Collection[tuple[str, str]]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in about)
