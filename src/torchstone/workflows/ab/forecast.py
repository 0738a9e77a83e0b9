"""How many further pairs would settle what is unclear, if the ratio is what it now seems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchstone.core.stats.nested import ASSUMED_SPREAD, ASSUMED_WEIGHT, Location, Pairs, nested_mean, random_effects
from torchstone.core.stats.student import t_quantile, tail

MOST_TEMPLATES = 6
_POWER = 0.8
_MOST_PAIRS = 1000  # further ones: more than that is no advice


def pairs_to_settle(groups: Sequence[Pairs], level: float, margin: float, apart: float | None = None) -> int | None:
    """Return how many further pairs would settle it, with a power of 80 %, at a look of that level; None: not in 1,000.

    `groups`: pair values (logarithms) with their errors, a group for each template. `apart`: the logarithm of the ratio
    that is taken for true; None: their mean. None of fewer than 2 pairs, too.
    """
    pairs = [pair for group in groups for pair in group]
    whole, found = random_effects([v for v, _ in pairs], [e for _, e in pairs]), nested_mean(groups)
    if whole is None or found is None:
        return None
    forecast, apart = (
        _Forecast(whole, found, len(pairs), sum(map(bool, groups))),
        abs(found.value if apart is None else apart),
    )
    low, high = 0, _MOST_PAIRS
    if not _settles(apart, *forecast.spread(high), level, margin):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _settles(apart, *forecast.spread(middle), level, margin) else (middle, high)
    return high


def _settles(apart: float, error: float, df: float, level: float, margin: float) -> bool:
    """Say whether an interval at that level leaves 1 out, or lies within the margin, often enough.

    `apart`: how far the logarithm of the ratio is from 0, taken for true; estimates are Student's about it.
    """
    if error <= 0.0:
        return False
    half = t_quantile(1.0 - level / 2.0, df) * error
    room = math.log1p(margin) - half  # an estimate nearer to 0 has an interval within the margin
    if room >= half:
        return True

    def nearer(reach: float) -> float:
        sides = ((reach - apart) / error, (reach + apart) / error)
        return 1.0 - sum(tail(t, df) if t >= 0.0 else 1.0 - tail(-t, df) for t in sides) if reach > 0.0 else 0.0

    return nearer(half) - nearer(room) <= 1.0 - _POWER


class _Forecast:
    """The error of an experiment's mean after further pairs: of its two parts only one shrinks with the pairs.

    The other is what templates differ by, over their number, which more time raises to MOST_TEMPLATES at most.
    """

    def __init__(self, whole: Location, found: Location, pairs: int, templates: int) -> None:
        """`whole`: the mean of the pairs without regard to templates; `found`: with it (nested_mean)."""
        self._whole, self._pairs, self._templates = whole, pairs, templates
        share = 1.0 / templates - 1.0 / pairs
        part = max(0.0, found.error**2 - whole.error**2)
        self._between = part / share if share > 0.0 else ASSUMED_SPREAD**2

    def spread(self, more: int) -> tuple[float, float]:
        """Return (standard error, degrees of freedom) after so many further pairs, combined as in nested_mean."""
        pairs = self._pairs + more
        templates = max(self._templates, min(MOST_TEMPLATES, self._templates * pairs // self._pairs))
        own, own_df = self._whole.error**2 * self._pairs / pairs, (self._whole.df + 1.0) * pairs / self._pairs - 1.0
        part, part_df = self._between * (1.0 / templates - 1.0 / pairs), ASSUMED_WEIGHT + templates - 1.0
        variance = own + part
        if variance <= 0.0:
            return 0.0, own_df
        return math.sqrt(variance), variance**2 / (own**2 / own_df + part**2 / part_df)
