"""The interval of a share of items: an accuracy."""

from __future__ import annotations

import math

from torchstone.core.stats.student import two_sided


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the score interval of a share (0 to 1) of n independent items.

    Wilson, J. Am. Stat. Assoc. 22, 1927; it holds its level for few items and for shares near 0 and 1, too (Brown, Cai
    & DasGupta, Statistical Science 16(2), 2001). Raises ValueError for no item, or a share or level outside its range.
    """
    if n < 1 or not 0.0 <= share <= 1.0:
        raise ValueError(f"no share of {n} items: {share!r}")
    z = two_sided(level, math.inf)
    centre, width = share + z * z / (2 * n), z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    low, high = (centre - width) / scale, (centre + width) / scale
    return 0.0 if share == 0.0 else low, 1.0 if share == 1.0 else high  # by algebra, which rounding may miss
