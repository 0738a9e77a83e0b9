"""The pictures of a Document on a page: each has an address of its own, and is drawn on the server when it is seen."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator

import msgspec

from torchstone.core.charts.drawing import as_svg
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import UsageError
from torchstone.report.document import Document
from torchstone.report.pages.site import Reply, Site
from torchstone.report.pictures import charts_of, size

# What core/charts draws with, where the page is dark (renderers/html/page.css has the same for its own).
_DARK = """<style>@media (prefers-color-scheme: dark) {
:not(text)[fill="white"] { fill: #14181d } [stroke="white"] { stroke: #14181d }
:is([fill="#333333"], [fill="#333"], [fill="#000"], [fill="black"], [fill="#000000"]) { fill: #e6e9ed }
[fill="#b3261e"] { fill: #ff8f86 } [fill="#666666"] { fill: #9aa4b0 }
[fill="#0072b2"] { fill: #56a8dd } [stroke="#0072b2"] { stroke: #56a8dd }
:is([stroke="#e5e5e5"], [stroke="#ddd"]) { stroke: #39424d }
:is([stroke="#888"], [stroke="#000000"], [stroke="#333333"]) { stroke: #9aa4b0 }
}</style>"""


class Pictures(msgspec.Struct, frozen=True):
    """Where the pictures of a Document are: `address`/NAME.svg`query`, with their `names` in order."""

    address: str
    query: str
    names: Iterator[str]
    size: Callable[[Picture], tuple[int, int]] = size


def pictures(page: str, document: Document | None) -> Pictures | None:
    """Return where the pictures of the Document on a page are; None without the library that draws them.

    The library is not loaded: that takes longer than a page.
    """
    if document is None or importlib.util.find_spec("vl_convert") is None:
        return None
    path, mark, query = page.partition("?")
    return Pictures(f"{path}/pictures", mark + query, (chart.name for chart in charts_of(document)))


def picture(site: Site, key: object, document: Document, name: str) -> Reply:
    """Return a picture of a Document as SVG, drawn once. `key` names the Document, and the state of its records.

    Raises UsageError where it has none by that name, MissingError without the library that draws.
    """
    chart = next((one for one in charts_of(document) if one.name == name), None)
    if chart is None:
        raise UsageError(f"there is no picture {name} on this page")
    data = site.kept((key, "picture", name), lambda: _for_both(as_svg(chart.picture)).encode())
    headers = {"etag": f'"{hashlib.sha256(data).hexdigest()[:32]}"', "cache-control": "private, no-cache"}
    return Reply(data, media_type="image/svg+xml", headers=headers)


def _for_both(svg: str) -> str:
    """Return a picture with its colours on a dark page."""
    head, end, rest = svg.partition(">")
    return f"{head}{end}{_DARK}{rest}"
