"""A sequential test of pair values: looked at again and again, with a bound on false alarms over all looks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from torchstone.core.schema.comparison import Judgement, judge
from torchstone.core.stats.nested import Pairs, Spending, half_width, nested_mean
from torchstone.core.stats.student import from_log
from torchstone.workflows.ab.budget import FEWEST_PAIRS
from torchstone.workflows.ab.forecast import pairs_to_settle

_APART = 1.25  # a look has so many times the pairs of the one before: each costs some of the bound
_LATEST = 0.75  # of the budget: what a later look spends, the last one lacks, which is the answer


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


class SequentialTest:
    """Collects pair values (logarithms of B ÷ A), a group for each template."""

    def __init__(self, margin: float, false_alarms: float) -> None:
        self._margin = margin
        self._spending = Spending(false_alarms)
        self._groups: list[list[tuple[float, float]]] = []
        self._next_look, self._seen = FEWEST_PAIRS, 0  # pairs at the next look, and at the last
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
        """Take in the value of one pair, and its standard error by the spread of its turns; 0 where that is unknown."""
        self._groups[-1].append((value, error))

    def due(self, progress: float) -> bool:
        """Say whether to look now: there are enough pairs since the last look, and it is not too late for another."""
        return self.pairs >= self._next_look and progress <= _LATEST

    def look(self, progress: float) -> Look | None:
        """Look at what there is; `progress`: the share of the budget that is spent. None where that says nothing yet.

        The interval holds at the level of this look; that of the last look, together with all before, at the bound.
        Without a new pair it is the look before: to look again at what is left of the bound would only widen it.
        """
        if self.last is not None and self.pairs == self._seen:
            return self.last
        known, self._seen = self._known(), self.pairs
        found = nested_mean(known)
        level = self._spending.level(progress)
        self._next_look = max(self.pairs + 1, math.ceil(self.pairs * _APART))
        if found is None or self.pairs < FEWEST_PAIRS or level <= 0.0:
            return None
        half, self._level = half_width(found, level), level
        low, high = from_log(found.value - half), from_log(found.value + half)
        verdict = judge(low, high, self._margin, higher_is_better=False)
        templates = sum(bool(group) for group in known)
        self.last = Look(from_log(found.value), low, high, verdict, sum(map(len, known)), templates)
        return self.last

    def pairs_to_settle(self) -> int | None:
        """Return how many further pairs would settle what is unclear, with a power of 80 %; None: not in 1,000.

        If the ratio is what it now seems. Also None where it is settled, or nothing is known of it yet.
        """
        if self.last is None or self.last.settled:
            return None
        return pairs_to_settle(self._known(), self._level, self._margin)

    def _known(self) -> Sequence[Pairs]:
        """Return the pairs as they may be weighed: by their errors, where those of enough pairs are known.

        Of few turns the spread says nothing of their middle, and who seems surest would carry the mean. So all weigh
        alike then: the mean has the error that their scatter shows, whatever each is worth. Where enough pairs are
        known, those that were cut short are left out: for their length, whatever they say.
        """
        known = [[pair for pair in group if pair[1] > 0.0] for group in self._groups]
        if sum(map(len, known)) >= FEWEST_PAIRS:
            return known
        return [[(value, 0.0) for value, _ in group] for group in self._groups]
