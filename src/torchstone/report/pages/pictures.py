"""The pictures of a Document on a page: each has an address of its own, and is drawn on the server when it is seen."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Sequence

import msgspec

from torchstone.core.charts.drawing import as_svg
from torchstone.core.errors import UsageError
from torchstone.report.document import Chart, Document, Part, Section
from torchstone.report.pages.site import Answer, Site


class Pictures(msgspec.Struct, frozen=True):
    """Where the pictures of a Document are: `address`/1.svg`query`, and so on in their order."""

    address: str
    query: str
    numbers: Iterator[int]


def pictures(page: str) -> Pictures | None:
    """Return where the pictures of the Document on a page are; None without the library that draws them.

    The library is not loaded: that takes longer than a page.
    """
    if importlib.util.find_spec("vl_convert") is None:
        return None
    path, mark, query = page.partition("?")
    return Pictures(f"{path}/pictures", mark + query, itertools.count(1))


def picture(site: Site, key: object, document: Document, number: int) -> Answer:
    """Return a picture of a Document as SVG, the first is 1, drawn once. `key` names the Document.

    Raises UsageError where it has not so many, MissingError without the library that draws.
    """
    charts = charts_of(document.parts)
    if not 1 <= number <= len(charts):
        raise UsageError(f"there is no picture {number} on this page")
    data = site.kept((key, "picture", number), lambda: as_svg(charts[number - 1].picture).encode())
    return Answer(data, media_type="image/svg+xml")


def charts_of(parts: Sequence[Part]) -> tuple[Chart, ...]:
    """Return the Charts among the parts of a Document, in their order."""
    return tuple(_charts(parts))


def _charts(parts: Sequence[Part]) -> Iterator[Chart]:
    for part in parts:
        if isinstance(part, Chart):
            yield part
        elif isinstance(part, Section):
            yield from _charts(part.parts)
