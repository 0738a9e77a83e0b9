"""The pictures of a Document, and the files that are drawn of them.

Where one is wider or taller than a page or slide, it has fewer columns of panels, and is drawn in parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from torchstone.core.charts.drawing import as_png, as_svg, begin
from torchstone.core.charts.vega_lite import Panel, Picture, Spec
from torchstone.report.document import Chart, Document, Part, Section
from torchstone.report.translation.documents import in_spoken_language

Specifications = Callable[[Sequence[Chart]], Iterable[Spec]]  # what a renderer will draw of Charts

_SUFFIXES = (".svg", ".png")


def charts_of(document: Document) -> tuple[Chart, ...]:
    """Return every Chart of a Document in order; no two have the same name."""
    found: dict[str, Chart] = {}
    for chart in _charts(document.parts):
        name, number = file_name(chart.name), 1
        while name in found:
            number += 1
            name = f"{file_name(chart.name)}_{number}"
        found[name] = msgspec.structs.replace(chart, name=name)
    return tuple(found.values())


def drawn(document: Document, suffixes: Sequence[str] = _SUFFIXES) -> Mapping[str, bytes]:
    """Return the files of all pictures by their names, the same bytes for the same Document.

    Raises MissingError without vl-convert.
    """
    found: dict[str, bytes] = {}
    for chart in charts_of(document):
        for suffix in suffixes:
            data = as_png(chart.picture) if suffix == ".png" else as_svg(chart.picture).encode()
            found[f"{chart.name}{suffix}"] = data
    return found


def begin_drawing(parts: Sequence[Part], drawing: Sequence[Specifications]) -> None:
    """Have the Charts among parts drawn meanwhile, in the process of `drawing_elsewhere`. `drawing`: of renderers."""
    charts = charts_of(in_spoken_language(Document("", tuple(parts)))) if drawing else ()
    for specifications in drawing:
        for spec in specifications(charts):
            begin(spec)


def first_chart(document: Document) -> Chart | None:
    """Return the first Chart that is not folded: what a Document is about."""
    shown = (part for part in document.parts if not isinstance(part, Section) or not part.folded)
    return next(_charts(tuple(shown)), None)


def without_charts(document: Document, but: Chart | None = None) -> Document:
    """Return a Document without its Charts, for formats that could only name a file that is not there.

    `but`: the one that stays.
    """
    return msgspec.structs.replace(document, parts=tuple(_without(document.parts, but)))


def with_links(document: Document, folder: str) -> Document:
    """Return a Document whose Charts are called by their files in a folder, as a page beside it links them."""
    names = iter(charts_of(document))
    return msgspec.structs.replace(document, parts=tuple(_renamed(document.parts, names, folder)))


def _charts(parts: Sequence[Part]) -> Iterator[Chart]:
    for part in parts:
        if isinstance(part, Chart):
            yield part
        elif isinstance(part, Section):
            yield from _charts(part.parts)


def file_name(name: str) -> str:
    """Return a name that is a file's everywhere."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._")[:80] or "picture"


def _without(parts: Sequence[Part], but: Chart | None) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Section):
            kept = tuple(_without(part.parts, but))
            if kept or not part.parts:
                yield msgspec.structs.replace(part, parts=kept)
        elif not isinstance(part, Chart) or part is but:
            yield part


def _renamed(parts: Sequence[Part], charts: Iterator[Chart], folder: str) -> Iterator[Part]:
    """Yield the parts; a Chart with the name of its file."""
    for part in parts:
        if isinstance(part, Section):
            yield msgspec.structs.replace(part, parts=tuple(_renamed(part.parts, charts, folder)))
        elif isinstance(part, Chart):
            chart = next(charts)
            yield msgspec.structs.replace(chart, name=f"{folder}/{chart.name}" if folder else chart.name)
        else:
            yield part


_BESIDE, _AROUND = 70, 100  # points of axes beside a panel; of axes, titles and legend above and below
_SMALLEST = 0.55  # of its size a picture may be drawn at: its letters, of 11 points, are then as small as can be read
_MOST = 30  # parts of one picture


def size(picture: Picture) -> tuple[int, int]:
    """Return about how wide and tall a picture is, in points, before it is drawn."""
    widest, tallest = (max((int(one.view[side]) for one in picture.panels), default=0) for side in ("width", "height"))
    rows = len(_rows(picture, max(1, picture.columns)))
    columns = max(1, min(picture.columns, len(picture.panels)))
    return columns * (widest + _BESIDE), rows * (tallest + _AROUND)


def parts(picture: Picture, wide: float, tall: float) -> tuple[list[Picture], int]:
    """Return pictures of as many panels each as can be read in a room in points, and how many panels are left out."""
    if not picture.panels:
        return [picture], 0
    widest, tallest = (max(int(one.view[side]) for one in picture.panels) for side in ("width", "height"))
    columns = max(1, min(picture.columns, len(picture.panels), int(wide / _SMALLEST // (widest + _BESIDE))))
    scale = min(1.0, wide / (columns * (widest + _BESIDE)))
    rows = _rows(picture, columns)
    each = max(1, int(tall / scale // (tallest + _AROUND)))
    starts = range(0, min(len(rows), _MOST * each), each)
    found = [tuple(panel for row in rows[n : n + each] for panel in row) for n in starts]
    left_out = len(picture.panels) - sum(map(len, found))
    return [msgspec.structs.replace(picture, panels=panels, columns=columns) for panels in found], left_out


def _rows(picture: Picture, columns: int) -> list[tuple[Panel, ...]]:
    """Return the panels of each row; a group of them begins with one of its own."""
    groups: dict[str, list[Panel]] = {}
    for panel in picture.panels:
        groups.setdefault(panel.group, []).append(panel)
    return [tuple(own[n : n + columns]) for own in groups.values() for n in range(0, len(own), columns)]
