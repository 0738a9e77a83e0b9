"""The next probe of a search: the whole step with the greatest expected improvement less the price of its cost.

Jones, Schonlau & Welch, Efficient global optimization, J. Global Optim. 13, 1998. Improvement is over the answer so
far, whose own value is uncertain too, and correlated with that of the point. The gain less the price, not the gain per
second (Snoek, Larochelle & Adams, NIPS 2012): that reads cheap points again and again, and never comes to dear ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from torchstone.core.schema.search import PATIENCE_S, Part, Point, ProbeResult, SearchProblem
from torchstone.plugins.searchers._ledger import FINALISTS, Ledger, value_of
from torchstone.plugins.searchers.adaptive.gp import (
    DEVICE,
    LOADER,
    NUMBER_OF,
    WHOLE,
    Array,
    LineModel,
    PointSpace,
    Posterior,
    StepModel,
)
from torchstone.plugins.searchers.adaptive.limits import Failures, Memory, MemoryFit, ProbeCosts

MOST = 0.085  # of the cost of everything: what is spent at most, where the user gives no limit
FEWEST = 16.0  # full trials that this budget is worth at least: a small space is tried out
PRICE = 1.2  # ln per share of the cost of everything: what a probe costs, in units of its gain
EFFORT = 0.3  # of a whole step: short trials of many points say more than long ones of few
REPEATS = 4  # readings of one point, at most
CONFIRMED = 2  # readings of the answer, at least: the best of many is often best by chance
SURE = 0.002  # ln: a search ends when knowing any one point exactly promises no more
NEARLY = 0.1  # ln
_ERFC = np.vectorize(math.erfc, otypes=[float])


def expected_improvement(leads: Array, sds: Array) -> Array:
    """Return E[max(0, lead + sd Z)] for a standard normal Z (Jones et al. 1998, equation 15)."""
    z = leads / np.maximum(sds, 1e-12)
    below: Array = leads * 0.5 * _ERFC(-z / math.sqrt(2.0))
    return below + sds * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)


class NextProbe(NamedTuple):
    """A probe: a point, the part that is measured, and the share of a full window."""

    number: int
    part: int
    effort: float


class SearchState:
    """The readings of a search, and what follows from them. `means`: posterior means of the points, ln(s per item)."""

    def __init__(self, problem: SearchProblem) -> None:
        self.problem = problem
        self.space = PointSpace(problem)
        self.count: Counter[tuple[int, int]] = Counter()  # probes, by what they measure
        self._ledger = Ledger(problem)
        self._memory, self._failures = Memory(self.space, problem.capacity_bytes), Failures(self.space)
        self._costs = ProbeCosts(self.space)
        self.belief = Posterior(self.space, (StepModel if problem.separable else LineModel)(self.space))
        self._update()

    def add(self, reading: ProbeResult) -> None:
        """Take in one reading."""
        self._ledger.write(reading)
        self.count[self.space.key(self.space.number_of(reading.probe.point), NUMBER_OF[reading.probe.part])] += 1
        self._update()

    def _update(self) -> None:
        readings, points = self._ledger.readings, range(len(self.space.points))
        for learner in (self._memory, self._failures, self._costs, self.belief):
            learner.learn(readings)
        self.means = self.belief.means()
        fits = np.array([fit is not MemoryFit.NO for fit in self._memory.fits], dtype=bool)
        out, lesser = self._failures.out[WHOLE], self._failures.lesser
        self.open, self._running = np.flatnonzero(fits & ~out), np.flatnonzero(fits & (~out | lesser))
        self._cost_of_all = self.costs_s(np.array(points), WHOLE, 1.0)
        valid = [r for r in readings if r.probe.part is Part.WHOLE and r.allowed and value_of(r) is not None]
        numbers = dict.fromkeys(self.space.number_of(r.probe.point) for r in valid)
        self.measured = sorted((n for n in numbers if self._failures.likely[n]), key=self.means.__getitem__)

    def may(self, number: int, part: int) -> bool:
        """Say whether a probe is safe and of use."""
        fits = part == LOADER or self._memory.fits[number] is MemoryFit.YES
        return fits and not self._failures.out[part, number]

    def affords(self, cost_s: float) -> bool:
        """Say whether the user's own limits leave room for a probe of that cost."""
        return self._ledger.open(cost_s)

    def mean_cost_s(self) -> float:
        """Return the mean cost of the probes so far."""
        return self._ledger.mean_cost_s()

    def is_late(self) -> bool:
        """Say whether PATIENCE_S are spent, or would be after another probe; never where the user gave a limit."""
        return self.problem.most_cost_s is None and self._ledger.spent_s + self.mean_cost_s() > PATIENCE_S

    def costs_s(self, numbers: Array, part: int, effort: float) -> Array:
        """Return the predicted cost of probes."""
        if not self.problem.separable:
            return np.full(len(numbers), self.mean_cost_s())  # the objective says nothing of the time of a step
        return self._costs.of(numbers, part, self._step_s(numbers, part), effort)

    def cost_s(self, number: int, part: int, effort: float) -> float:
        """Return the predicted cost of one probe."""
        return float(self.costs_s(np.array([number]), part, effort)[0])

    def _step_s(self, numbers: Array, part: int) -> Array:
        return self.space.batch[numbers] * np.exp(self.belief.means(part)[numbers])

    def _budget(self) -> None:
        """Set what may be spent: the user's limit, or a share of the cost of everything, up to PATIENCE_S."""
        failing_s = self._costs.start_s * (len(self.means) - len(self._running))
        self.everything_s = max(1e-9, float(self._cost_of_all[self._running].sum()) + failing_s)
        limit_s = self.problem.most_cost_s
        if limit_s is None:
            share = max(MOST if self.problem.separable else 1.0, FEWEST / len(self.means))
            limit_s = min(PATIENCE_S, share * self.everything_s)
        self.left_s = limit_s - self._ledger.spent_s

    def choose(self) -> NextProbe | None:
        """Return the next probe, or None where none is worth its cost or the budget is spent."""
        self._budget()
        if self.left_s <= 0.0 or not self.affords(0.0):
            return None
        likely = self.open[self._failures.likely[self.open]]
        if not len(likely):
            return self._elsewhere()
        likely = np.array([n for n in likely if self.may(n, WHOLE)], dtype=int)
        if not self.measured:
            return self._first(likely)
        answer = self.measured[0]
        gains = expected_improvement(self.means[answer] - self.means[likely], self.belief.deviations(likely, answer))
        fresh = np.array([not self.count[WHOLE, n] for n in likely])
        if fresh.any() and len(self.means) <= FEWEST and not self.problem.separable:
            # One format that is slow in a runtime says little of its others: what can be tried out is.
            return self._affordable(int(likely[fresh][np.argmax(gains[fresh])]))
        if max(gains[likely != answer], default=0.0) < SURE:
            return None if self.count[WHOLE, answer] >= CONFIRMED else self._affordable(answer)
        costs_s = self.costs_s(likely, WHOLE, EFFORT)
        net = gains - PRICE * costs_s / self.everything_s
        for place in np.argsort(-net, kind="stable"):
            number = int(likely[place])
            if net[place] >= 0.0 and self.count[WHOLE, number] < REPEATS and self._affordable(number):
                return NextProbe(number, WHOLE, EFFORT)
        return None

    def _elsewhere(self) -> NextProbe | None:
        """Where nothing tried is allowed, nor anything like it: return the point least like what was tried."""
        space = self.space
        tried = np.array([n for n in range(len(space.points)) if self.count[WHOLE, n]], dtype=int)
        open_ones = map(int, self.open)
        fresh = np.array([n for n in open_ones if not self.count[WHOLE, n] and self.may(n, WHOLE)], dtype=int)
        if not len(fresh):
            return None
        apart = np.abs(space.log_batch[fresh][:, None] - space.log_batch[tried])
        apart += np.abs(space.log_workers[fresh][:, None] - space.log_workers[tried])
        apart += 0.5 * (space.values[fresh][:, None] != space.values[tried])
        return self._affordable(int(fresh[np.argmax(apart.min(axis=1, initial=math.inf))]))

    def _affordable(self, number: int) -> NextProbe | None:
        cost_s = self.cost_s(number, WHOLE, EFFORT)
        possible = cost_s <= self.left_s and self.affords(cost_s) and self.may(number, WHOLE)
        return NextProbe(number, WHOLE, EFFORT) if possible else None

    def _first(self, numbers: Array) -> NextProbe | None:
        """Return a probe of the cheapest point among those predicted to be nearly the best, where none is measured."""
        near = [n for n in numbers if self.means[n] <= min(self.means[numbers]) + NEARLY]
        return self._affordable(min(near, key=lambda n: self.cost_s(n, WHOLE, EFFORT))) if near else None

    def finalists(self) -> list[Point]:
        """Return the points for the final round, best first: by posterior mean, not by the best single reading."""
        return [self.space.points[n] for n in self.measured[:FINALISTS]]


# ── the first probes ────────────────────────────────────────────────────────────────────────────────────────

LOOK = 0.2  # effort of a first look
MOST_COMBINATIONS = 4
CLOSE = 1  # one batch short of the middle will do
# Where in the list of batches, at most, and of workers. The loader: without workers and with some at a small batch,
# where handing it over counts; with few and with all at a larger one, where loading an item does, and crowding.
LOADERS = ((0.4, 0.0), (0.4, 0.5), (0.65, 0.2), (0.65, 1.0))
DEVICE_BATCHES = (0.2, 0.5)
WHOLES = ((0.65, 0.0), (0.65, 0.35))
FEW = 8  # probes in all, at most: they go to whole steps first, as only what was run whole can be recommended
DEARER = 2.0  # than the smallest batch, at most: a slow loader is recognised by small batches


def opening(state: SearchState) -> Iterator[NextProbe]:
    """Yield the first probes, each when the reading of the one before is in.

    The loader; the device at a small and a middle batch of each combination; both, without and with workers.
    """
    few = state.problem.most_probes is not None and state.problem.most_probes <= FEW
    if few or not state.problem.separable:
        yield from _wholes_only(state)
        return
    for place in LOADERS:
        yield from _within(state, LOADER, *place, LOOK)
    for values in range(min(MOST_COMBINATIONS, int(state.space.values.max()) + 1)):
        yield from _device(state, values)
    for place in WHOLES:
        yield from _within(state, WHOLE, *place, EFFORT)


def _within(state: SearchState, part: int, batch_at: float, workers_at: float, effort: float) -> Iterator[NextProbe]:
    """Yield a point that may be probed: the fastest of the largest batch that is not much dearer than a small one."""
    space = state.space
    most, count = _at(np.unique(space.batch), batch_at), _at(np.unique(space.workers), workers_at)
    here = np.flatnonzero(space.workers == count).tolist()
    fresh = [n for n in here if state.may(n, part) and not state.count[space.key(n, part)]]
    if not fresh:
        return
    fastest = {float(space.batch[n]): n for n in sorted(fresh, key=lambda n: -state.means[n])}
    cost_s = {batch: state.cost_s(n, part, LOOK) for batch, n in fastest.items()}
    least = min(fastest)
    cheap = [batch for batch in fastest if batch <= most and cost_s[batch] <= DEARER * cost_s[least]]
    yield NextProbe(fastest[max(cheap, default=least)], part, effort)


def _device(state: SearchState, values: int) -> Iterator[NextProbe]:
    """Probe the device at a small and at a middle batch, in steps where memory is not yet known to allow it.

    The small one tells what a launch takes, which is about the same whatever the values of the other axes.
    """
    space = state.space
    firsts = {float(space.batch[n]): n for n in reversed(np.flatnonzero(space.values == values).tolist())}
    keys = [firsts[batch] for batch in sorted(firsts)]
    small, middle = (int(place * (len(keys) - 1)) for place in DEVICE_BATCHES)
    reached = -1
    for top in (small, middle, middle) if values == 0 else (middle, middle):
        open_keys = [n for n in range(top + 1) if state.may(keys[n], DEVICE)]
        fresh = [n for n in open_keys if not state.count[space.key(keys[n], DEVICE)]]
        if not fresh or reached >= middle - CLOSE:
            return
        reached = max(fresh)
        yield NextProbe(keys[reached], DEVICE, LOOK)


def _wholes_only(state: SearchState) -> Iterator[NextProbe]:
    """Yield what the user has now; then a small and a middle batch of each combination."""
    space = state.space
    first = [n for n, point in enumerate(space.points) if point == state.problem.present]
    for place in (0.1, 0.6):
        for values in range(min(MOST_COMBINATIONS, int(space.values.max()) + 1)):
            numbers = np.flatnonzero(space.values == values)
            first.append(int(_at(numbers[np.argsort(space.batch[numbers], kind="stable")], place)))
    yield from (NextProbe(n, WHOLE, LOOK) for n in dict.fromkeys(first) if state.may(n, WHOLE))


def _at(values: Array, place: float) -> float:
    return float(values[min(len(values) - 1, int(place * len(values)))])
