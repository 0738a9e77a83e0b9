"""A series as one line of text: eight heights, a bar where the level changed, a dot for a run that was left out."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from torchstone.analysis.recommend.case_history import History

_HEIGHTS = "▁▂▃▄▅▆▇█"
CHANGED, LEFT_OUT = "|", "·"
_LEAST = 0.02  # of the value: what moves less must not look like much


def line(history: History, width: int) -> str:
    """Return the runs, oldest first, within `width` characters; several runs share a character where they must."""
    cuts = [change.at for change in history.changes][-(width // 4) :]
    room = max(1, width - len(cuts))
    values = [point.value if point.counted else None for point in history.points]
    size = -(-len(values) // room)
    counted = [value for value in values if value is not None]
    low, high = (min(counted), max(counted)) if counted else (0.0, 0.0)
    middle, span = (low + high) / 2.0, max(high - low, _LEAST * abs(low + high) / 2.0)
    drawn = ""
    for begin, end in _groups(len(values), size, cuts):
        mean = [value for value in values[begin:end] if value is not None]
        drawn += CHANGED if begin in cuts else ""
        drawn += _height(fmean(mean), middle, span) if mean else LEFT_OUT
    return drawn


def _groups(n: int, size: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return [begin, end) of the runs that share a character; none reaches over a change."""
    groups, begin = [], 0
    while begin < n:
        end = min([begin + size, n, *(cut for cut in cuts if cut > begin)])
        groups.append((begin, end))
        begin = end
    return groups


def _height(value: float, middle: float, span: float) -> str:
    share = 0.5 + (value - middle) / span if span > 0.0 else 0.5
    return _HEIGHTS[min(len(_HEIGHTS) - 1, max(0, int(share * len(_HEIGHTS))))]
