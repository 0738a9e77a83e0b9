"""The state of a search: readings, posterior, allowed probes and their cost."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from torchstone.core.schema.search import PATIENCE_S, Part, Point, ProbeResult, SearchProblem
from torchstone.plugins.searchers._ledger import FINALISTS, Ledger, key_of, value_of
from torchstone.plugins.searchers.adaptive.costs import Costs
from torchstone.plugins.searchers.adaptive.failures import Failures
from torchstone.plugins.searchers.adaptive.gp_posterior import Posterior
from torchstone.plugins.searchers.adaptive.kernels import WINDOW_S, Amplitudes
from torchstone.plugins.searchers.adaptive.memory_limit import Fit, Memory
from torchstone.plugins.searchers.adaptive.space import Space
from torchstone.plugins.searchers.adaptive.structure import Flat, Structure

# If the SearchProblem sets no limit: of what trying everything would cost, what is spent as long as it helps, and
# the most that is spent where it helps much.
SHARE, MOST = 0.05, 0.085
FEWEST = 16.0  # full trials that this budget is worth at least: a small space is tried out


class Budget(NamedTuple):
    """What may be spent, in seconds: easily, at most; and what trying everything would cost."""

    easy_s: float
    left_s: float
    everything_s: float


class Knowledge:
    """Takes readings. `means`: posterior means of the points, in ln(s per item), as of the last `think`."""

    def __init__(self, brief: SearchProblem) -> None:
        self.brief = brief
        self.space = Space(brief)
        self.asked: Counter[tuple[Part, int]] = Counter()
        self.means: list[float] = []
        self._ledger = Ledger(brief)
        self._memory = Memory(self.space, brief.capacity_bytes)
        self._failures = Failures(self.space)
        self._costs = Costs(self.space)
        if brief.separable:
            self.belief = Posterior(self.space, Structure(self.space), Amplitudes())
        else:
            self.belief = Posterior(self.space, Flat(self.space), Amplitudes(whole=0.15, point=0.03))

    def hear(self, reading: ProbeResult) -> None:
        """Take in one reading."""
        self._ledger.write(reading)
        self.asked[self.space.key(self.space.number[key_of(reading.probe.point)], reading.probe.part)] += 1
        for learner in (self._memory, self._failures, self._costs):
            learner.learn(self._ledger.readings)

    def think(self) -> None:
        """Bring the belief up to what was heard."""
        self.belief.learn(self._ledger.readings)
        self.means = self.belief.means()

    def mean(self, number: int, part: Part) -> float:
        """Return the posterior of a part of a point, ln(s per item)."""
        return self.means[number] if part is Part.WHOLE else self.belief.row(part, number).mean

    def may(self, number: int, part: Part) -> bool:
        """Say whether a probe is safe and of use."""
        if self._failures.out(number, part):
            return False
        return part is Part.LOADER or self._memory.fit(self.space.device_of[number]) is Fit.YES

    def rung(self, number: int) -> int | None:
        """Return the device probe that leads on to a point of which it is not yet known whether it fits, if any."""
        keys, device = self.space.device_keys, self.space.device_of[number]
        if self._memory.fit(device) is not Fit.PERHAPS:
            return None
        own = [n for n, key in enumerate(keys) if key.others == keys[device].others]
        safe = [n for n in own if self._memory.fit(n) is Fit.YES]
        largest = max(safe, key=lambda n: keys[n].batch, default=None)
        if largest is None or self.asked[Part.DEVICE, largest]:
            return None
        if keys[largest].batch <= self._memory.reached(keys[device].others):
            return None
        rung = self.space.device_of.index(largest)
        return rung if self.may(rung, Part.DEVICE) else None

    def affords(self, cost_s: float) -> bool:
        """Say whether the user's own limits leave room for a probe of that cost."""
        return self._ledger.open(cost_s)

    def is_late(self) -> bool:
        """Say whether PATIENCE_S are spent, or would be after another probe; never where the user gave a limit."""
        return self.brief.most_cost_s is None and self._ledger.spent_s + self.mean_cost_s() > PATIENCE_S

    def mean_cost_s(self) -> float:
        """Return what a probe has cost so far, in the mean."""
        return self._ledger.mean_cost_s()

    def cost_s(self, number: int, part: Part, mean: float, effort: float) -> float:
        """Return the cost of a probe whose item is predicted to take exp(`mean`) seconds."""
        if not self.brief.separable:
            return self.mean_cost_s()  # the objective says nothing of the time of a step
        batch = self.space.device_keys[self.space.device_of[number]].batch
        return self._costs.of(number, part, batch * math.exp(mean), effort)

    def window_s(self, number: int, part: Part, mean: float, effort: float) -> float:
        """Return how long the window of such a probe will be."""
        if not self.brief.separable:
            return WINDOW_S * effort
        batch = self.space.device_keys[self.space.device_of[number]].batch
        return self._costs.window_s(number, part, batch * math.exp(mean), effort)

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

    def budget(self) -> Budget:
        """Return what may be spent: the user's limit, or shares of what everything would cost, up to PATIENCE_S."""
        spent_s = self._ledger.spent_s
        points = self.open_points()
        everything_s = sum(self.cost_s(n, Part.WHOLE, self.means[n], 1.0) for n in points)
        everything_s = max(1e-9, everything_s + self._costs.start_s * (len(self.means) - len(points)))
        if self.brief.most_cost_s is not None:
            limit_s = self.brief.most_cost_s
            return Budget(limit_s - spent_s, limit_s - spent_s, everything_s)
        easy_s, limit_s = (
            min(PATIENCE_S, min(1.0, max(share, FEWEST / len(self.means))) * everything_s) - spent_s
            for share in (SHARE, MOST)
        )
        return Budget(easy_s, limit_s, everything_s)

    def measured(self) -> list[int]:
        """Return the points measured end to end and allowed, those of the highest posterior mean first."""
        ok = [r for r in self._ledger.readings if r.probe.part is Part.WHOLE and r.allowed and value_of(r) is not None]
        numbers = dict.fromkeys(self.space.number[key_of(r.probe.point)] for r in ok)
        return sorted((n for n in numbers if self.likely(n)), key=self.means.__getitem__)

    def finalists(self) -> list[Point]:
        """Return the points for the final round, best first: by posterior mean, not by the best single reading."""
        self.think()
        return [self.space.points[n] for n in self.measured()[:FINALISTS]]
