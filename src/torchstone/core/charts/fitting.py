"""What fits a chart: fewer points of a curve without losing its extremes, and names that are short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from torchstone.core.units import plain

Points = Sequence[tuple[float, float]]

MOST_POINTS = 2000  # of a panel: more than its pixels
_KEPT = 4  # points of each part


def thinned(points: Points, most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return at most `most` of the points (x, y), which ascend in x; all of them where they are so few.

    M4: cut into parts of equally many points, of each part the first, the least, the greatest and the last stay, in
    their order (Jugel, Jerzak, Hackenbroich & Markl, Proceedings of the VLDB Endowment 7(10), 2014). The first, the
    last, the least and the greatest of all are therefore always among them. Raises ValueError where `most` is under 4.
    """
    if most < _KEPT:
        raise ValueError(f"at least {_KEPT} points are kept: {most}")
    if len(points) <= most:
        return list(points)
    parts = most // _KEPT
    edges = [part * len(points) // parts for part in range(parts + 1)]
    found: list[tuple[float, float]] = []
    for begin, end in pairwise(edges):
        places = range(begin, end)
        least = min(places, key=lambda place: points[place][1])
        greatest = max(places, key=lambda place: points[place][1])
        found += [points[place] for place in sorted({begin, least, greatest, end - 1})]
    return found


def without_middle(text: str, most: int) -> str:
    """Return printable text of at most so many characters; a longer one loses its middle, as names differ at ends."""
    shown = " ".join(plain(text).split())
    if len(shown) <= most:
        return shown
    head = most // 2
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def short_names(names: Iterable[str], most: int = 40) -> Mapping[str, str]:
    """Return a short name for each; two that would be the same have a number behind."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        cut, number = without_middle(name, most), 2
        while cut in found.values():
            cut = f"{without_middle(name, most - 4)} ({number})"
            number += 1
        found[name] = cut
    return found
