"""What a probe will cost, from what the others did."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.schema.trial import Status
from torchstone.core.stats.cholesky import factor, solve
from torchstone.plugins.searchers._ledger import key_of
from torchstone.plugins.searchers.adaptive.kernels import WINDOW_S
from torchstone.plugins.searchers.adaptive.space import Space

# A trial starts and builds (`start`; of the loader alone `loader_start`), starts workers (`worker`), fills and drains
# their queue (`drain` turns of PREFETCH steps of each), warms up and measures: `window` seconds at full effort, or
# `steps` steps, or TURNS turns of the queue, whichever takes longest. ln: prior mean and sd.
_PRIORS = (
    (math.log(1.0), 1.0), (math.log(0.3), 1.0), (math.log(0.03), 1.0), (math.log(5.0), 1.3), (math.log(8.0), 0.5),
    (math.log(1.5), 0.4),
)  # fmt: skip
PREFETCH, TURNS, LEAST_STEPS = 2.0, 2.0, 5.0
_MISFIT = 0.15  # how far this is from the truth, in ln
_STEPS, _CLOSE = 6, 0.02
_H = 1e-4


class _How(NamedTuple):
    """What the cost of a probe depends on."""

    part: Part
    workers: int
    step_s: float
    effort: float


class Costs:
    """Learns the cost of a probe as a function of its part, its workers, the time of its step and its effort."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._p = [mean for mean, _ in _PRIORS]
        self._full_window_s = WINDOW_S

    def learn(self, readings: Iterable[ProbeResult]) -> None:
        """Take note of what these cost, all that there are."""
        heard = list(readings)
        known = [
            (math.log(r.cost_s), _How(r.probe.part, self._workers_of(r), r.step_s, r.probe.effort))
            for r in heard
            if r.status is Status.OK and r.step_s is not None and r.step_s > 0.0 and r.cost_s > 0.0
        ]
        for _ in range(_STEPS):
            if self._improve(known) < _CLOSE:
                break
        full_s = [r.window_s / r.probe.effort for r in heard if r.window_s is not None and r.probe.effort > 0.0]
        self._full_window_s = statistics.median_low(full_s) if full_s else WINDOW_S

    def _improve(self, known: Sequence[tuple[float, _How]]) -> float:
        """Take one step of Gauss and Newton's towards the most probable parameters and return its length."""
        size = len(self._p)
        normal = [[1.0 / _PRIORS[i][1] ** 2 if i == j else 0.0 for j in range(size)] for i in range(size)]
        right = [(mean - now) / sd**2 for (mean, sd), now in zip(_PRIORS, self._p, strict=True)]
        for log_cost_s, how in known:
            here = math.log(_cost_s(self._p, how))
            slopes = []
            for k in range(size):
                moved = list(self._p)
                moved[k] += _H
                slopes.append((math.log(_cost_s(moved, how)) - here) / _H)
            for i in range(size):
                right[i] += slopes[i] * (log_cost_s - here) / _MISFIT**2
                for j in range(size):
                    normal[i][j] += slopes[i] * slopes[j] / _MISFIT**2
        moves = solve(factor(normal), right)
        longest = max(map(abs, moves))
        share = min(1.0, 1.0 / longest) if longest else 1.0
        self._p = [now + share * move for now, move in zip(self._p, moves, strict=True)]
        return longest

    def of(self, point: int, part: Part, step_s: float, effort: float) -> float:
        """Return the seconds that a probe will take, its step taking `step_s`."""
        return _cost_s(self._p, _How(part, self._workers(point), step_s, effort))

    def window_s(self, point: int, part: Part, step_s: float, effort: float) -> float:
        """Return how long its window will be."""
        workers = 0 if part is Part.DEVICE else max(0, self._workers(point))
        return max(self._full_window_s * effort, LEAST_STEPS * step_s, TURNS * PREFETCH * workers * step_s)

    @property
    def start_s(self) -> float:
        """What a trial costs before its first step: all that one costs that ends there."""
        return math.exp(self._p[0])

    def _workers_of(self, reading: ProbeResult) -> int:
        return self._workers(self._space.number[key_of(reading.probe.point)])

    def _workers(self, point: int) -> int:
        return self._space.loader_keys[self._space.loader_of[point]].workers


def _cost_s(p: Sequence[float], how: _How) -> float:
    start, loader_start, worker, window, steps, drain = map(math.exp, p)
    measured_s = max(window * how.effort, steps * how.step_s)
    if how.part is Part.DEVICE or how.workers <= 0:
        fed_s = 0.0
    else:
        turn_s = PREFETCH * how.workers * how.step_s
        measured_s = max(measured_s, TURNS * turn_s)
        fed_s = how.workers * worker + drain * turn_s
    return (loader_start if how.part is Part.LOADER else start) + fed_s + measured_s
