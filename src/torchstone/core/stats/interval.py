"""Intervals: of a figure over trials (a trial is a value, never its steps), of a share of items and of a difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torchstone.core.stats.moderated import Prior, half_width, trial_spread
from torchstone.core.stats.student import from_log, two_sided


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the ends of the 95 % score interval of a share (0 to 1) of n independent items.

    Wilson, J. Am. Stat. Assoc. 22, 1927; it holds its level for few items and for shares near 0 and 1, too (Brown, Cai
    & DasGupta, Statistical Science 16(2), 2001). Raises ValueError for no item, or a share outside its range.
    """
    if n < 1 or not 0.0 <= share <= 1.0:
        raise ValueError(f"no share of {n} items: {share!r}")
    z = two_sided(0.95, math.inf)
    centre, width = share + z * z / (2 * n), z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    low, high = (centre - width) / scale, (centre + width) / scale
    return 0.0 if share == 0.0 else low, 1.0 if share == 1.0 else high  # by algebra, which rounding may miss


LOG_T = "t-interval on the log over trials"
MODERATED_T = "t-interval on the log over trials, spread moderated by other cases or earlier runs"
PLAIN_T = "t-interval over trials"
NO_INTERVAL = "one trial"


_MOST_ITEMS = 10**9
_HALVINGS = 40  # of an interval of 2 at most: to 2e-12


class Interval(NamedTuple):
    """A value in the figure's own unit, the ends of its interval (None: there is none) and how it came about."""

    value: float
    low: float | None
    high: float | None
    method: str


def over_trials(
    values: Sequence[float], level: float = 0.95, *, logs: bool = True, prior: Prior | None = None
) -> Interval:
    """Return value and two-sided interval of per-trial figures (shape: one a trial), in their own unit.

    All positive: the geometric mean and Student's t-interval on the logarithms (ratios of times are nearer normal than
    differences; Hoefler & Belli, SC15, rules 3 to 5; Kalibera & Jones, ISMM 2013, on what the replicate is). Any value
    <= 0, or `logs` off: the arithmetic mean and the plain t-interval (Student 1908). One value: no interval. Two values
    have one, and it is wide. `prior`: what moderates the spread of the logarithms (core/stats/moderated.py). Raises
    ValueError where there is no value, one is not finite, or level is outside (0, 1).
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"an interval needs finite values, one a trial: {list(values)!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level!r} is not between 0 and 1")
    first, n = values[0], len(values)
    logs = logs and min(values) > 0.0
    method = LOG_T if logs else PLAIN_T
    if n == 1:
        return Interval(first, None, None, NO_INTERVAL)
    if all(v == first for v in values):
        return Interval(first, first, first, method)
    if logs:
        points = [math.log(v) for v in values]
        spread = trial_spread(points)
        half = half_width(spread, n, prior, level) if spread is not None else 0.0
        centre = math.fsum(points) / n
        method = MODERATED_T if prior is not None else LOG_T
        return Interval(from_log(centre), from_log(centre - half), from_log(centre + half), method)
    centre = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (n - 1))
    half = two_sided(level, n - 1) * deviation / math.sqrt(n)
    return Interval(centre, centre - half, centre + half, PLAIN_T)


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
