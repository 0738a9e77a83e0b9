"""The difference of two shares of the same items: its score interval, and how many items decide about a margin."""

from __future__ import annotations

import math

from torchstone.core.stats.student import two_sided

_MOST_ITEMS = 10**9
_HALVINGS = 40  # of an interval of 2 at most: to 2e-12


def loss_interval(lost: float, gained: float, n: float) -> tuple[float, float]:
    """Return the ends of the score interval of (lost - gained) / n, the difference of two shares of the same n items.

    `lost`, `gained`: items for which the first alone, and the second alone, was right. Tango, Statistics in Medicine
    17, 1998: it holds its level where few items differ or none, for which Wald's has no width, and Newcombe's (method
    10, ibid.) may have none. With `gained` = 0 its upper end is that of Wilson's interval of lost / n. Raises
    ValueError where the counts are not those of n items.
    """
    if n <= 0 or min(lost, gained) < 0 or lost + gained > n:
        raise ValueError(f"{lost!r} and {gained!r} of {n!r} items")
    z, seen = two_sided(0.95, math.inf), (lost - gained) / n
    return _end(lost, gained, n, seen, -1.0, z), _end(lost, gained, n, seen, 1.0, z)


def _end(lost: float, gained: float, n: float, inside: float, outside: float, z: float) -> float:
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2.0
        if abs(_score(lost, gained, n, middle)) <= z:
            inside = middle
        else:
            outside = middle
    return inside


def _score(lost: float, gained: float, n: float, difference: float) -> float:
    """Return by how many standard errors the observed difference is off, were the true one `difference` (-1 to 1)."""
    b = (2.0 * n - lost + gained) * difference - lost - gained
    c = -gained * difference * (1.0 - difference)
    share = (math.sqrt(max(0.0, b * b - 8.0 * n * c)) - b) / (4.0 * n)  # of gained items, most likely under that
    variance = n * (2.0 * share + difference * (1.0 - difference))
    off = lost - gained - n * difference
    return off / math.sqrt(variance) if variance > 0.0 else math.copysign(math.inf, off) if off else 0.0


def items_to_decide(lost: int, gained: int, n: int, margin: float) -> int | None:
    """Return for how many items, at the same shares, the interval lies on one side of the margin; None: for none."""

    def decided(items: float) -> bool:
        low, high = loss_interval(lost * items / n, gained * items / n, items)
        return high < margin or low > margin

    enough = n
    while not decided(enough):
        enough *= 2
        if enough > _MOST_ITEMS:
            return None
    few = enough // 2
    while enough - few > max(1, enough // 1000):
        middle = (few + enough) // 2
        few, enough = (few, middle) if decided(middle) else (middle, enough)
    return enough
