"""Pictures that are wider or taller than a page or slide: with fewer columns of panels, and in parts."""

from __future__ import annotations

import msgspec

from torchstone.core.charts.vega_lite import Panel, Picture

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
