"""Pictures of pages: SVG in the shipped typeface, in as many parts as pages are needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchstone.core.charts.drawing import as_svg
from torchstone.core.charts.vega_lite import Spec, vega_lite
from torchstone.core.errors import MissingError
from torchstone.report.document import Chart
from torchstone.report.renderers._pictures import parts
from torchstone.report.renderers._typeface import typeface
from torchstone.report.renderers.pdf.tables import ACROSS, Block, Drafting
from torchstone.report.translation.spoken import said

_TALL = 690.0  # points between the margins of an upright page, without the line below a picture
_LOW, _LOWER = 400.0, 300.0  # a picture of less than this height gets that one: two stand on a page
_CELLS = 300  # of a table take as long as a picture
_SIZE = re.compile(r"<svg[^>]*?\swidth=\"([\d.]+)[^>]*?\sheight=\"([\d.]+)")
_FONT = re.compile(r"font-family=\"[^\"]*\"")
_OURS = 'font-family="DejaVu Sans, Spoqa Han Sans Neo" font-stretch="condensed"'


def specifications(chart: Chart) -> Iterator[Spec]:
    """Yield what is drawn of a picture."""
    yield from map(vega_lite, parts(chart.picture, ACROSS, _TALL)[0])


def pictures(chart: Chart, draft: Drafting) -> Iterator[Block]:
    """Yield a block a page of a picture; where it cannot be drawn, what it shows, and why not."""
    says = draft.text(chart.says) or draft.text(chart.name) or said("picture")
    shown, left_out = parts(chart.picture, ACROSS, _TALL)
    try:
        drawn = [as_svg(part) for part in shown]
    except MissingError as fault:
        yield {"kind": "rest", "text": f"{says} ({draft.text(said(str(fault)))})"}
        return
    for number, svg in enumerate(drawn):
        file = f"picture-{len(draft.files)}.svg"
        draft.files[file] = _in_typeface(svg).encode()
        draft.cells_left = max(0, draft.cells_left - _CELLS)
        more = f" ({said(f'{number + 1} of {len(drawn)}')})" if len(drawn) > 1 else ""
        yield {"kind": "picture", "file": file, "says": f"{says}{more}", "width": _width(svg)}
    if left_out:
        yield {"kind": "rest", "text": said(f"{left_out:,} more panels of this picture are left out")}


def _width(svg: str) -> float:
    """Return the width in points in which a picture fits a page: its own, or less."""
    found = _SIZE.search(svg)
    if found is None:
        return ACROSS
    width, height = float(found[1]), float(found[2])
    most = _LOWER if height < _LOW else _TALL
    return min(width, ACROSS, width * most / height if height else ACROSS)


def _in_typeface(svg: str) -> str:
    """Return the picture with all text in the shipped typeface; typst draws no other font's characters."""
    named = _FONT.sub(_OURS, svg)
    return "\n".join(typeface().shown(line) for line in named.replace("\t", " ").split("\n"))
