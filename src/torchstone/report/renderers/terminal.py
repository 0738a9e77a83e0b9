"""A Document on a terminal: as wide as that is, the answer first, columns left out by rank where they do not fit.

A panel of a picture is drawn in characters: a line per place along x, its value as a dot, its interval as a bar beside
it. Of our own, as no library draws intervals and failures on a terminal without colours and without a screen to fill:
a row per batch size is as many lines as there are values, and each has its figures beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchstone.core import units
from torchstone.core.charts.vega_lite import Panel, Picture, failed
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import plain
from torchstone.report.document import (
    Chart,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Renderer,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers._table import cell_width, fit_columns, hidden, table, with_what_to_type, wrapped
from torchstone.report.translation.language import in_language, localized

__all__ = ["fit_columns", "terminal"]

_NAME = 9  # cells of a fact's name
_MAIL = 100  # columns of a file


def terminal(document: Document, width: int, *, every: bool = False) -> str:
    """Return the text, each line with its end. `every`: with what is folded.

    No line is wider than `width` cells but what is there to be copied: a command, and a fact of one word, as a path is.
    """
    with in_language(document.language):
        lines = list(_lines(document.parts, width, every=every))
        if not every and any(hidden(table.columns, width) for table in _tables(document.parts)):
            lines += wrapped(localized("more columns in a wider terminal"), width, rest="  ")
        return "".join(f"{line}\n" for line in lines)


def _tables(parts: Sequence[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Table):
            yield part
        elif isinstance(part, Section) and not part.folded:
            yield from _tables(part.parts)


def _lines(parts: Sequence[Part], width: int, *, every: bool, level: int = 0, titled: bool = False) -> Iterator[str]:
    """Yield the lines of parts. `level`: how many titles they stand under; `titled`: one is right above them."""
    before: Part | None = None
    begun = titled
    for part in parts:
        drawn = list(_part(part, width, every=every, level=level, titled=titled))
        if not drawn:
            continue
        if drawn[0] and _apart(before, part, begun=begun):
            yield ""
        yield from drawn
        begun = True
        if not (isinstance(part, Text) and part.role == Role.DETAIL):  # which is of what stands before it
            before = part


def _apart(before: Part | None, part: Part, *, begun: bool) -> bool:
    """Say whether an empty line stands above a part. `begun`: something does, be it a title alone."""
    if before is None:
        return begun and isinstance(part, Section) and bool(part.title)
    if isinstance(part, CommandLine) or (isinstance(part, Text) and part.role == Role.DETAIL):
        return False
    if isinstance(before, Text) and isinstance(part, Text):
        return before.role != part.role
    if isinstance(before, Text) and isinstance(part, Section) and part.folded:
        return before.role in (Role.HEADLINE, Role.NOTE)
    if isinstance(before, Text | Doubt) and isinstance(part, Doubt):
        return isinstance(before, Text) and before.role == Role.HEADLINE
    return type(before) is not type(part) or isinstance(part, Section | Table)


def _part(part: Part, width: int, *, every: bool, level: int, titled: bool) -> Iterator[str]:
    match part:
        case Text():
            yield from _text(part, width)
        case CommandLine():
            yield f"  {plain(part.words)}"  # whole, so that it can be copied
        case Fields():
            yield from _facts(part, width, "  " if titled else "")
        case Table():
            yield from table(part, width, every=every)
        case Chart():
            return  # the tables beside them have the same figures
        case Doubt():
            about = f"{localized('note')}:" if part.severity == Severity.INFO else localized(str(part.severity))
            yield from wrapped(f"{about} {part.subject}: {part.message}; {part.advice}", width, rest="  ")
        case Section() if not _is_silent(part):
            yield from _section(part, width, every=every, level=level, titled=titled)


def _text(part: Text, width: int) -> Iterator[str]:
    match part.role:
        case Role.HEADLINE:
            yield from wrapped(part.text, width)
        case Role.BODY:
            yield from wrapped(part.text, width, rest="  ")
        case Role.NOTE:
            yield from wrapped(f"{localized('note')}: {part.text}", width, rest="  ")
        case Role.DETAIL:
            yield from wrapped(part.text, width, first="  ", rest="    ")


def _facts(part: Fields, width: int, indent: str) -> Iterator[str]:
    """Yield a line a fact, the values below each other; a name that is too long for that has a line of its own.

    A value of one word, as a path is, stays whole.
    """
    names = [plain(name) for name, _ in part.rows]
    most = max(_NAME, width // 3)
    broad = max([_NAME, *(cell_width(name) for name in names if cell_width(name) <= most)])
    beside = indent + " " * (broad + 1)
    for name, (_, value) in zip(names, part.rows, strict=True):
        first = f"{indent}{name}{' ' * (broad + 1 - cell_width(name))}"
        if cell_width(name) > broad:
            yield from wrapped(name, width, first=indent, rest=f"{indent}  ")
            first = beside
        yield from wrapped(value, width, first=first, rest=beside, whole=len(plain(value).split()) == 1)


def _section(part: Section, width: int, *, every: bool, level: int, titled: bool) -> Iterator[str]:
    """Yield a section: under its title, one of parts below another title under "[title]" and indented."""
    if part.folded and not every:
        yield from with_what_to_type(part.title, part.how, width)
    elif not part.title:
        yield from _lines(part.parts, width, every=every, level=level, titled=titled)
    elif level == 0:
        title = list(wrapped(part.title, width, rest="  "))
        yield from title
        if _has_sections(part):
            yield "=" * max(map(cell_width, title))
        yield from _lines(part.parts, width, every=every, level=1, titled=True)
    elif _has_sections(part):
        yield from wrapped(part.title, width, first="── ", rest="   ")
        yield from _lines(part.parts, width, every=every, level=level + 1, titled=True)
    else:
        yield from wrapped(f"[{part.title}]", width, rest=" ")
        for line in _lines(part.parts, width - 2, every=every, level=level + 1):
            yield f"  {line}" if line else ""


def _is_silent(part: Section) -> bool:
    """Say whether a section has pictures alone, of which a terminal shows nothing."""
    return bool(part.parts) and all(
        _is_silent(one) if isinstance(one, Section) else isinstance(one, Chart) for one in part.parts
    )


def _has_sections(part: Section) -> bool:
    return any(isinstance(one, Section) and one.title and not one.folded and not _is_silent(one) for one in part.parts)


class PlainText(Renderer):
    """What a terminal shows that is as wide as a mail, with what is folded."""

    describes = f"plain text, {_MAIL} columns wide"
    suffix = ".txt"

    def render(self, document: Document) -> bytes:
        """Return the file."""
        return terminal(document, _MAIL, every=True).encode()


RENDERER = PlainText()


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
