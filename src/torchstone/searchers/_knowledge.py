"""All that a search knows: what was read, what is believed, what may be probed, and what it would cost."""

from __future__ import annotations

import math
from collections import Counter

from torchstone.searchers._belief import Belief
from torchstone.searchers._costs import Costs
from torchstone.searchers._failures import Failures
from torchstone.searchers._kernels import Amplitudes
from torchstone.searchers._ledger import FINALISTS, Ledger, key_of, value_of
from torchstone.searchers._memory import Fit, Memory
from torchstone.searchers._space import Space
from torchstone.searchers._structure import Flat, Structure
from torchstone.terms.search import Brief, Part, Point, Reading

SHARE = 0.053  # of what trying everything would cost: the most that is spent, if the Brief sets no limit
FEWEST = 16.0  # full trials that this budget is worth at least: a small space is tried out


class Knowledge:
    """Hears readings. `means` are what is believed of the points, in ln(s an item), as of the last `think`."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.space = Space(brief)
        self.asked: Counter[tuple[Part, int]] = Counter()
        self.means: list[float] = []
        self._ledger = Ledger(brief)
        self._memory = Memory(self.space, brief.capacity_bytes)
        self._failures = Failures(self.space)
        self._costs = Costs(self.space)
        if brief.separable:
            self.belief = Belief(self.space, Structure(self.space), Amplitudes())
        else:
            self.belief = Belief(self.space, Flat(self.space), Amplitudes(whole=0.15, point=0.03))

    def hear(self, reading: Reading) -> None:
        """Take in one reading."""
        self._ledger.write(reading)
        self.asked[self.space.key(self.space.number[key_of(reading.probe.point)], reading.probe.part)] += 1
        for learner in (self._memory, self._failures, self._costs):
            learner.learn(self._ledger.readings)

    def think(self) -> None:
        """Bring the belief up to what was heard."""
        self.belief.learn(self._ledger.readings)
        self.means = self.belief.means()

    def may(self, number: int, part: Part) -> bool:
        """Say whether a probe is safe and of use."""
        if self._failures.out(number, part):
            return False
        return part is Part.LOADER or self._memory.fit(self.space.device_of[number]) is Fit.YES

    def affords(self, cost_s: float) -> bool:
        """Say whether the user's own limits leave room for a probe of that cost."""
        return self._ledger.open(cost_s)

    def mean_cost_s(self) -> float:
        """Return what a probe has cost so far, in the mean."""
        return self._ledger.mean_cost_s()

    def cost_s(self, number: int, part: Part, mean: float, effort: float) -> float:
        """Return what a probe will cost whose item is believed to take exp(`mean`) seconds."""
        if not self.brief.separable:
            return self.mean_cost_s()  # the objective says nothing of the time of a step
        batch = self.space.device_keys[self.space.device_of[number]].batch
        return self._costs.of(number, part, batch * math.exp(mean), effort)

    def open_points(self) -> list[int]:
        """Return the points that may yet turn out to be the answer."""
        space = self.space
        fits = [self._memory.fit(device) is not Fit.NO for device in range(len(space.device_keys))]
        return [
            n for n in range(len(space.points))
            if fits[space.device_of[n]] and not self._failures.out(n, Part.WHOLE)
        ]  # fmt: skip

    def likely(self, number: int) -> bool:
        """Say whether a point probably runs and keeps to the constraints."""
        return self._failures.likely(number)

    def left_s(self) -> float:
        """Return what is left of the budget, in seconds: the user's, or a share of what everything would cost."""
        limit = self.brief.most_cost_s
        if limit is None:
            points = self.open_points()
            everything = sum(self.cost_s(n, Part.WHOLE, self.means[n], 1.0) for n in points)
            everything += self._costs.start_s * (len(self.means) - len(points))
            limit = min(1.0, max(SHARE, FEWEST / len(self.means))) * everything
        return limit - self._ledger.spent_s

    def measured(self) -> list[int]:
        """Return the points measured end to end and allowed, those of the highest posterior mean first."""
        ok = [r for r in self._ledger.readings if r.probe.part is Part.WHOLE and r.allowed and value_of(r) is not None]
        numbers = dict.fromkeys(self.space.number[key_of(r.probe.point)] for r in ok)
        return sorted((n for n in numbers if self.likely(n)), key=self.means.__getitem__)

    def finalists(self) -> list[Point]:
        """Return the points worth a duel, best first: by posterior mean, not by the luckiest reading."""
        self.think()
        return [self.space.points[n] for n in self.measured()[:FINALISTS]]
