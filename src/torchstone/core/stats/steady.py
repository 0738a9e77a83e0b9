"""Where warm-up ends, online and after the fact, and whether what follows still drifts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean, median

NEWEST = 20
BATCH = 5
_SHORT = 50  # under ten batches of five, MSER-5 has too few points to choose from
_BLOCKS = 100
_FEWEST_FOR_DRIFT = 5


def settled(steps: Sequence[float], tolerance: float = 0.05) -> bool:
    """Return whether warm-up may end now: are the newest steps as fast as those just before?

    Of the newest 20 steps (or fewer, an odd oldest one left out) the median of the newer half lies within `tolerance`,
    relative, of the median of the older half. Two steps are compared with each other; fewer are never settled. Medians,
    because one step that the kernel interrupted must not prolong warm-up. Cost does not grow with len(steps).
    """
    half = min(len(steps), NEWEST) // 2
    if half == 0:
        return False
    older, newer = median(steps[-2 * half : -half]), median(steps[-half:])
    return abs(newer - older) <= tolerance * abs(older)


def truncation(steps: Sequence[float]) -> int:
    """Return how many of the first steps are warm-up: the index at which the steady part begins, at most half.

    MSER-5 (White, Simulation 69(6), 1997; White, Cobb & Spratt, WSC 2000): of the means of five steps each, leave out
    the first d for which Σ(y - ȳ)²/(m - d)² over the m - d that remain, the squared width of the interval of their
    mean, is smallest. Under 50 steps single steps take the place of the means (MSER-1). O(n). A result of about half
    says that the sequence is too short to tell, or never settles.
    """
    size = 1 if len(steps) < _SHORT else BATCH
    means = [fmean(steps[i : i + size]) for i in range(0, len(steps) - size + 1, size)]
    if len(means) < 2:
        return 0
    # counted from the last value: equal steps then give exact zeros, and no digits are lost in the squares
    origin, total, squares = means[-1], 0.0, 0.0
    best, smallest = 0, float("inf")
    for d in range(len(means) - 1, -1, -1):
        y = means[d] - origin
        total += y
        squares += y * y
        left = len(means) - d
        width = max(0.0, squares - total * total / left) / (left * left)
        if d <= len(means) // 2 and width <= smallest:
            best, smallest = d, width
    return best * size


def drift(steps: Sequence[float]) -> float | None:
    """Return the relative change of the step time over the window (0.1: the end is 10 % slower); None under 5 steps.

    The Theil-Sen slope, the median of the slopes of all pairs (Sen, JASA 63, 1968), times the length, over the median.
    It is taken on the medians of at most 100 blocks, so cost stays flat beyond sorting.
    """
    n = len(steps)
    if n < _FEWEST_FOR_DRIFT:
        return None
    blocks = min(n, _BLOCKS)
    edges = [i * n // blocks for i in range(blocks + 1)]
    level = [median(steps[a:b]) for a, b in itertools.pairwise(edges)]
    at = [(a + b - 1) / 2.0 for a, b in itertools.pairwise(edges)]
    centre = median(level)
    if not centre > 0.0:
        return None
    slopes = [(level[j] - level[i]) / (at[j] - at[i]) for i in range(blocks) for j in range(i + 1, blocks)]
    return median(slopes) * (n - 1) / centre
