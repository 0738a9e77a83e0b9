"""What a probe will cost, from what the others did."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torchstone.searchers._ledger import key_of
from torchstone.searchers._space import Space
from torchstone.stats.cholesky import factor, solve
from torchstone.terms.search import Part, Reading
from torchstone.terms.trial import Status

# A trial starts and builds (`start`), starts workers and drains their queue (`worker`, plus PREFETCH steps of each),
# warms up and measures: `window` seconds at full effort, or `steps` steps where these take longer. ln, prior mean and sd.
_PRIORS = ((math.log(1.0), 1.0), (math.log(0.3), 1.0), (math.log(0.03), 1.0), (math.log(6.0), 0.7), (math.log(8.0), 0.5))
PREFETCH = 2.0
_MISFIT = 0.15  # how far this is from the truth, in ln
_H = 1e-4


class Costs:
    """Learns the cost of a probe as a function of its part, its workers, the time of its step and its effort."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._p = [mean for mean, _ in _PRIORS]

    def learn(self, readings: Iterable[Reading]) -> None:
        """Take note of what these cost, all that there are."""
        known = [
            (math.log(r.cost_s), r.probe.part, self._workers(self._space.number[key_of(r.probe.point)]), step, r.probe.effort)
            for r in readings
            if r.status is Status.OK and (step := r.step_s) and r.cost_s > 0.0
        ]
        size = len(self._p)
        for _ in range(6):
            normal = [[1.0 / _PRIORS[i][1] ** 2 if i == j else 0.0 for j in range(size)] for i in range(size)]
            right = [(mean - now) / sd**2 for (mean, sd), now in zip(_PRIORS, self._p, strict=True)]
            for log_cost, *how in known:
                here = math.log(_cost(self._p, *how))
                slopes = []
                for k in range(size):
                    moved = list(self._p)
                    moved[k] += _H
                    slopes.append((math.log(_cost(moved, *how)) - here) / _H)
                for i in range(size):
                    right[i] += slopes[i] * (log_cost - here) / _MISFIT**2
                    for j in range(size):
                        normal[i][j] += slopes[i] * slopes[j] / _MISFIT**2
            moves = solve(factor(normal), right)
            longest = max(map(abs, moves))
            self._p = [now + move * min(1.0, 1.0 / longest if longest else 1.0) for now, move in zip(self._p, moves, strict=True)]
            if longest < 0.02:
                break

    def of(self, point: int, part: Part, step_s: float, effort: float) -> float:
        """Return the seconds that a probe will take, its step taking `step_s`."""
        return _cost(self._p, part, self._workers(point), step_s, effort)

    @property
    def start_s(self) -> float:
        """What a trial costs before its first step: all that one costs that ends there."""
        return math.exp(self._p[0])

    def _workers(self, point: int) -> int:
        return self._space.loader_keys[self._space.loader_of[point]].workers



def _cost(p: list[float], part: Part, workers: int, step_s: float, effort: float) -> float:
    start, loader_start, worker, window, steps = map(math.exp, p)
    cost = (loader_start if part is Part.LOADER else start) + max(window * effort, steps * step_s)
    return cost if part is Part.DEVICE else cost + max(0, workers) * (worker + PREFETCH * step_s)
