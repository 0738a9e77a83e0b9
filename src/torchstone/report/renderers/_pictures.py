"""Pictures that are taller than a page or slide, in parts."""

from __future__ import annotations

import msgspec

from torchstone.core.charts.picture import Picture

_AROUND = 100  # points of axes, titles and legend around a panel
_MOST = 60  # parts of one picture


def parts(picture: Picture, tall: float) -> list[Picture]:
    """Return pictures of as many rows of panels each as a height in points has room for; one row at least."""
    tallest = max((panel.height for panel in picture.panels), default=0) + _AROUND
    each = max(1, int(tall // tallest)) * max(1, picture.columns)
    if len(picture.panels) <= each:
        return [picture]
    starts = range(0, min(len(picture.panels), _MOST * each), each)
    return [msgspec.structs.replace(picture, panels=picture.panels[n : n + each]) for n in starts]
