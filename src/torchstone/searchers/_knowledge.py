"""All that a search knows, and what it therefore asks next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from torchstone.searchers._belief import Amplitudes, Belief, Row
from torchstone.searchers._costs import Costs
from torchstone.searchers._failures import Failures
from torchstone.searchers._ledger import FINALISTS, Ledger, key_of, value_of
from torchstone.searchers._memory import Fit, Memory
from torchstone.searchers._space import Space
from torchstone.searchers._structure import Flat, Structure
from torchstone.stats.knowledge_gradient import expected_gain
from torchstone.terms.search import Brief, Part, Point, Probe, Reading

SHARE = 0.07  # of what trying everything would cost: the most that is spent, if the Brief sets no limit
FEWEST = 8.0  # full trials that the budget is worth at least: a small space is tried out
EFFORTS = (0.3, 1.0)
ENOUGH = 0.00005  # expected gain (ln) of the most telling probe, below which a search ends
REPEATS = 4
SURE = 0.0025  # ln: a search ends when knowing any one point exactly promises no more
CLEARLY = 0.005  # ln: believed to be better, rather than as good
CONTENDERS = 36
ALIKE = 5
DOUBT = 2.0
LOOKAHEAD = (1, 4)
PARTS = 8  # device and loader keys of contenders that may be probed alone


class Contender(NamedTuple):
    """A point that may be the best: its row in the belief, whitened covariances, and posterior variance."""

    number: int
    row: Row
    white: list[float]
    variance: float


class Proposal(NamedTuple):
    """A probe, what it is expected to gain (ln of the objective), and what to cost."""

    number: int
    part: Part
    effort: float
    gain: float
    cost_s: float


class Knowledge:
    """Hears readings, and proposes the probe that tells most for its cost."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.ledger = Ledger(brief)
        self.space = Space(brief)
        self.memory = Memory(self.space, brief.capacity_bytes)
        self.failures = Failures(self.space)
        self.asked: Counter[tuple[Part, int]] = Counter()
        self._costs = Costs(self.space)
        self.doubt=math.inf
        if brief.separable:
            self._belief = Belief(self.space, Structure(self.space), Amplitudes())
        else:
            self._belief = Belief(self.space, Flat(self.space), Amplitudes(whole=0.15, point=0.03))

    def hear(self, reading: Reading) -> None:
        """Take in one reading."""
        self.ledger.write(reading)
        self.asked[self.space.key(self.space.number[key_of(reading.probe.point)], reading.probe.part)] += 1
        for learner in (self.memory, self.failures, self._costs):
            learner.learn(self.ledger.readings)

    def may(self, number: int, part: Part) -> bool:
        """Say whether a probe is safe and of use."""
        if self.failures.out(number, part):
            return False
        return part is Part.LOADER or self.memory.fit(self.space.device_of[number]) is Fit.YES

    def proposal(self) -> Proposal | None:
        """Return the probe that promises most for its cost, or None where none is worth it or the budget is spent."""
        self._belief.learn(self.ledger.readings)
        means = self._belief.means()
        open_points = self._open_points()
        left_s = self._left_s(means, open_points)
        if left_s <= 0.0 or not self.ledger.open():
            return None
        likely = [n for n in open_points if self.failures.likely(n)]
        promising = self._unmeasured_best(means, likely or open_points, left_s)
        if promising is not None:
            return promising
        contenders = self._contenders(means, likely or open_points)
        self.doubt = self._doubt(means, contenders)
        if self.doubt < SURE:
            return None
        heights = [-means[c.number] for c in contenders]
        drift = self._belief.whitened_drift()
        best: Proposal | None = None
        for number, part, row in self._candidates(contenders):
            white = [a + b for a, b in zip(self._belief.whitened(row), drift, strict=True)]
            known = sum(map(mul, white, white))
            prior = self._belief.covariance(row, row)
            moves = [sum(map(mul, white, c.white)) - self._belief.covariance(row, c.row) for c in contenders]
            for effort in EFFORTS:
                cost_s = self._cost_s(number, part, row.mean, effort)
                for times in LOOKAHEAD:
                    if times * cost_s > left_s or not self.ledger.open(times * cost_s):
                        continue
                    sd = math.sqrt(max(1e-12, prior + self._belief.reading_variance(effort, times) - known))
                    gain = expected_gain(heights, [move / sd for move in moves])
                    if best is None or gain * best.cost_s > best.gain * cost_s * times:
                        best = Proposal(number, part, effort, gain, cost_s * times)
        return best if best is not None and best.gain >= ENOUGH else None

    def _doubt(self, means: Sequence[float], contenders: Sequence[Contender]) -> float:
        """Return what knowing any one contender exactly is expected to gain over the answer as it stands (ln)."""
        measured = [c for c in contenders if self.asked[Part.WHOLE, c.number]]
        if not measured:
            return math.inf
        answer = min(measured, key=lambda c: means[c.number])
        gains = [0.0]
        for c in contenders:
            both = self._belief.covariance(c.row, answer.row) - sum(map(mul, c.white, answer.white))
            sd = math.sqrt(max(0.0, c.variance + answer.variance - 2.0 * both))
            gains.append(expected_gain([means[answer.number] - means[c.number], 0.0], [sd, 0.0]) + max(0.0, means[answer.number] - means[c.number]))
        return max(gains)

    def _unmeasured_best(self, means: Sequence[float], numbers: Sequence[int], left_s: float) -> Proposal | None:
        """Return a probe of a point believed to beat all measured ones clearly: the answer must have been measured.

        Of those that are believed to be almost as good, it is the cheapest.
        """
        safe = [n for n in numbers if self.may(n, Part.WHOLE)]
        measured = min((means[n] for n in safe if self.asked[Part.WHOLE, n]), default=math.inf)
        best = min((means[n] for n in safe), default=math.inf)
        if best >= measured - CLEARLY:
            return None
        effort = EFFORTS[0]
        near = [n for n in safe if means[n] <= min(best + CLEARLY, measured - CLEARLY / 2.0)]
        cost_s, number = min((self._cost_s(n, Part.WHOLE, means[n], effort), n) for n in near)
        if cost_s > left_s or not self.ledger.open(cost_s):
            return None
        return Proposal(number, Part.WHOLE, effort, min(measured - best, 1.0), cost_s)

    def finalists(self) -> list[Point]:
        """Return the measured points of the highest posterior mean, not of the luckiest reading, best first."""
        ok = [r for r in self.ledger.readings if r.probe.part is Part.WHOLE and r.allowed and value_of(r) is not None]
        if not ok:
            return []
        self._belief.learn(self.ledger.readings)
        means = self._belief.means()
        numbers = dict.fromkeys(self.space.number[key_of(r.probe.point)] for r in ok)
        ranked = sorted((n for n in numbers if self.failures.likely(n)), key=means.__getitem__)
        return [self.space.points[n] for n in ranked[:FINALISTS]]

    def _open_points(self) -> list[int]:
        space = self.space
        fits = [self.memory.fit(device) is not Fit.NO for device in range(len(space.device_keys))]
        return [
            n for n in range(len(space.points))
            if fits[space.device_of[n]] and not self.failures.out(n, Part.WHOLE)
        ]  # fmt: skip

    def _left_s(self, means: Sequence[float], open_points: Sequence[int]) -> float:
        """Return what is left of the budget, in seconds."""
        limit = self.brief.most_cost_s
        if limit is None:
            everything = sum(self._cost_s(n, Part.WHOLE, means[n], 1.0) for n in open_points)
            everything += self._costs.start_s * (len(means) - len(open_points))
            limit = min(1.0, max(SHARE, FEWEST / len(means))) * everything
        return limit - self.ledger.spent_s

    def _cost_s(self, number: int, part: Part, mean: float, effort: float) -> float:
        if not self.brief.separable:
            return self.ledger.mean_cost_s()
        batch = self.space.device_keys[self.space.device_of[number]].batch
        return self._costs.of(number, part, batch * math.exp(mean), effort)

    def _contenders(self, means: Sequence[float], numbers: Sequence[int]) -> list[Contender]:
        """Return the points that may be the best: a high mean, or one that may turn out high."""
        order = sorted(numbers, key=means.__getitem__)
        chosen = dict.fromkeys(order[:CONTENDERS])
        seen: Counter[int] = Counter()
        for n in order:  # the two best of each device key, whatever their mean
            seen[self.space.device_of[n]] += 1
            if seen[self.space.device_of[n]] <= 2 and len(chosen) < 3 * CONTENDERS:
                chosen[n] = None
        found = []
        for n in chosen:
            row = self._belief.row(Part.WHOLE, n)
            white = self._belief.whitened(row)
            found.append(Contender(n, row, white, max(0.0, self._belief.covariance(row, row) - sum(map(mul, white, white)))))
        found.sort(key=lambda c: means[c.number] - DOUBT * math.sqrt(c.variance))
        seen.clear()
        alike = []
        for contender in found:  # some of each device key: what differs by workers alone moves together
            device = self.space.device_of[contender.number]
            seen[device] += 1
            if seen[device] <= ALIKE:
                alike.append(contender)
        return alike[:CONTENDERS]

    def _candidates(self, contenders: Sequence[Contender]) -> list[tuple[int, Part, Row]]:
        """Return what may be probed: the contenders, their parts alone, and the way up to those near memory's end."""
        space = self.space
        found = [
            (c.number, Part.WHOLE, c.row) for c in contenders
            if self.asked[Part.WHOLE, c.number] < REPEATS and self.may(c.number, Part.WHOLE)
        ]  # fmt: skip
        if not self.brief.separable:
            return found
        for part, of in ((Part.DEVICE, space.device_of), (Part.LOADER, space.loader_of)):
            for key in list(dict.fromkeys(of[c.number] for c in contenders))[:PARTS]:
                number = of.index(key)
                if not self.asked[part, key] and self.may(number, part):
                    found.append((number, part, self._belief.row(part, number)))
        return found
