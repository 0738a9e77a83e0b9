"""How a contest stands: pair values so far, looked at again and again, with a bound on false alarms over all looks."""

from __future__ import annotations

import math

import msgspec

from torchstone.stats.looks import Spending, half_width
from torchstone.stats.nested import nested_mean
from torchstone.terms.comparison import Judgement, judge

FEWEST_PAIRS = 6
_APART = 1.25  # a look has so many times the pairs of the one before: each costs some of the bound


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
        half = half_width(found, level)
        low, high = math.exp(found.value - half), math.exp(min(found.value + half, 700.0))
        verdict = judge(low, high, self._margin, higher_is_better=False)
        groups = sum(bool(group) for group in self._groups)
        self.last = Look(math.exp(found.value), low, high, verdict, self.pairs, groups)
        return self.last

    def pairs_to_settle(self) -> int | None:
        """Return about how many further pairs would settle what is unclear; None where it is settled or unknown.

        The interval shrinks with the root of the pairs. It settles as a difference when it leaves 1 out, as "same"
        when it lies within the margin: whichever needs less.
        """
        if self.last is None or self.last.settled:
            return None
        centre, edge = abs(math.log(self.last.value)), math.log1p(self._margin)
        half = math.log(self.last.high / self.last.low) / 2.0
        needed = max(centre, edge - centre)
        return math.ceil(self.pairs * ((half / needed) ** 2 - 1.0)) if needed > 0.0 else None
