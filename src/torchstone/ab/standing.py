"""How a contest stands: pair values so far, looked at again and again, with a bound on false alarms over all looks."""

from __future__ import annotations

import math

import msgspec

from torchstone.stats.logs import from_log
from torchstone.stats.looks import Spending, half_width
from torchstone.stats.nested import ASSUMED_SPREAD, ASSUMED_WEIGHT, nested_mean
from torchstone.stats.random_effects import random_effects
from torchstone.stats.student import t_quantile, tail
from torchstone.stats.trimmed import Location
from torchstone.terms.comparison import Judgement, judge

FEWEST_PAIRS = 6
MOST_TEMPLATES = 6
_APART = 1.25  # a look has so many times the pairs of the one before: each costs some of the bound
_POWER = 0.8
_MOST_PAIRS = 1000  # further ones: more than that is no advice


class Look(msgspec.Struct, frozen=True):
    """What is known at a look: the ratio of an item's time B ÷ A, the ends of its interval, and the verdict on B."""

    value: float
    low: float
    high: float
    verdict: Judgement
    pairs: int
    templates: int

    @property
    def settled(self) -> bool:
        """Whether there is nothing more to find out."""
        return self.verdict != Judgement.UNCLEAR


class Standing:
    """Collects pair values (logarithms of B ÷ A), a group for each template."""

    def __init__(self, margin: float, false_alarms: float) -> None:
        self._margin = margin
        self._spending = Spending(false_alarms)
        self._groups: list[list[tuple[float, float]]] = []
        self._next_look = FEWEST_PAIRS
        self.last: Look | None = None
        self._level = false_alarms  # of the last look

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(map(len, self._groups))

    def new_template(self) -> None:
        """The pairs that follow were forked from another template."""
        self._groups.append([])

    def add(self, value: float, error: float) -> None:
        """Take in the value of one pair, and its standard error by the spread of its turns."""
        self._groups[-1].append((value, error))

    def due(self) -> bool:
        """Say whether there are enough pairs since the last look for another."""
        return self.pairs >= self._next_look

    def look(self, progress: float) -> Look | None:
        """Look at what there is; `progress`: the share of the budget that is spent. None where that says nothing yet.

        The interval holds at the level of this look; that of the last look, together with all before, at the bound.
        """
        found = nested_mean(self._groups)
        level = self._spending.level(progress)
        self._next_look = max(self.pairs + 1, math.ceil(self.pairs * _APART))
        if found is None or self.pairs < FEWEST_PAIRS or level <= 0.0:
            return None
        half, self._level = half_width(found, level), level
        low, high = from_log(found.value - half), from_log(found.value + half)
        verdict = judge(low, high, self._margin, higher_is_better=False)
        groups = sum(bool(group) for group in self._groups)
        self.last = Look(from_log(found.value), low, high, verdict, self.pairs, groups)
        return self.last

    def pairs_to_settle(self) -> int | None:
        """Return how many further pairs would settle what is unclear, four times in five; None: not in 1,000.

        If the ratio is what it now seems. Also None where it is settled, or nothing is known of it yet.
        """
        if self.last is None or self.last.settled:
            return None
        pairs = [pair for group in self._groups for pair in group]
        whole, found = random_effects([v for v, _ in pairs], [e for _, e in pairs]), nested_mean(self._groups)
        if whole is None or found is None:
            return None
        forecast, apart = _Forecast(whole, found, len(pairs), sum(map(bool, self._groups))), abs(found.value)
        low, high = 0, _MOST_PAIRS
        if not self._settles(apart, *forecast.spread(high)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._settles(apart, *forecast.spread(middle)) else (middle, high)
        return high

    def _settles(self, apart: float, error: float, df: float) -> bool:
        """Say whether an interval at the level of the last look leaves 1 out, or lies within the margin, often enough.

        `apart`: how far the logarithm of the ratio is from 0, taken for true; estimates are Student's about it.
        """
        if error <= 0.0:
            return False
        half = t_quantile(1.0 - self._level / 2.0, df) * error
        room = math.log1p(self._margin) - half  # an estimate nearer to 0 has an interval within the margin
        if room >= half:
            return True

        def nearer(reach: float) -> float:
            sides = ((reach - apart) / error, (reach + apart) / error)
            return 1.0 - sum(tail(t, df) if t >= 0.0 else 1.0 - tail(-t, df) for t in sides) if reach > 0.0 else 0.0

        return nearer(half) - nearer(room) <= 1.0 - _POWER


class _Forecast:
    """The error of a contest's mean after further pairs: of its two parts only one shrinks with the pairs.

    The other is what templates differ by, over their number, which a longer contest raises to MOST_TEMPLATES at most.
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
