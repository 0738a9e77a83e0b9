"""The pictures of a Document, and the files that are drawn of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from torchstone.core.charts.drawing import as_png, as_svg, begin
from torchstone.core.charts.vega_lite import Spec
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
