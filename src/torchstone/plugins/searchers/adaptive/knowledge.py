"""The state of a search: readings, posterior, allowed probes and their cost."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.search import PATIENCE_S, Part, Point, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.core.stats.peak_memory import predict_peak
from torchstone.plugins.searchers._ledger import FINALISTS, Ledger, key_of, value_of
from torchstone.plugins.searchers.adaptive.gp_posterior import (
    BATCH,
    WINDOW_S,
    Amplitudes,
    Flat,
    Posterior,
    Space,
    Structure,
    Values,
    factor,
    solve,
)

# A trial starts and builds (`start`; of the loader alone `loader_start`), starts workers (`worker`), fills and drains
# their queue (`drain` turns of PREFETCH steps of each), warms up and measures: `window` seconds at full effort, or
# `steps` steps, or TURNS turns of the queue, whichever takes longest. ln: prior mean and sd.
_PRIORS = (
    (math.log(1.0), 1.0),
    (math.log(0.3), 1.0),
    (math.log(0.03), 1.0),
    (math.log(5.0), 1.3),
    (math.log(8.0), 0.5),
    (math.log(1.5), 0.4),
)
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


_PRIOR = (0.75, 0.3)  # a point is allowed, and how many readings that belief is worth
_LIKELY = 0.5

Pair = tuple[str, Scalar]


class Failures:
    """Learns from readings that are not ok or not allowed."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._out: set[tuple[Part, int]] = set()
        self._suspects: list[frozenset[Pair]] = []
        self._verdicts: list[tuple[int, bool]] = []  # point, whether it was allowed

    def learn(self, readings: Iterable[ProbeResult]) -> None:
        """Take note of what went wrong, and of what went well and so proves its values sound."""
        heard = list(readings)
        sound: set[Pair] = set()
        self._out, self._verdicts = set(), []
        for reading in heard:
            number = self._space.number[key_of(reading.probe.point)]
            if reading.status is Status.OK:
                sound |= _felt(reading)
                if reading.probe.part is Part.WHOLE:
                    self._verdicts.append((number, reading.allowed))
                continue
            self._out.add(self._space.key(number, reading.probe.part))
            if reading.status not in {Status.UNSUPPORTED, Status.OUT_OF_MEMORY}:
                self._verdicts.append((number, False))
        refused = (_felt(reading) - sound for reading in heard if reading.status is Status.UNSUPPORTED)
        self._suspects = [suspects for suspects in refused if suspects]

    def out(self, number: int, part: Part) -> bool:
        """Say whether there is no use in probing a part of a point: it failed, or shares what must be at fault."""
        if self._space.key(number, part) in self._out:
            return True
        if part is Part.WHOLE and {(Part.DEVICE, self._space.device_of[number])} & self._out:
            return True
        pairs = self._space.points[number].items()
        return any(suspects <= pairs for suspects in self._suspects)

    def likely(self, number: int) -> bool:
        """Say whether a point probably runs and keeps to the constraints.

        A batch larger than one that broke them is taken to break them too, and a smaller one than one that kept them
        to keep them, as for memory and for the time of a step; what else differs counts by how far it is.
        """
        if all(allowed for _, allowed in self._verdicts):
            return True
        believed, weight = _PRIOR
        total = believed * weight
        for other, allowed in self._verdicts:
            if other == number:
                return allowed
            near = self._near(number, other, allowed)
            weight += near
            total += near * allowed
        return total >= _LIKELY * weight

    def _near(self, number: int, other: int, allowed: bool) -> float:
        space = self._space
        here, there = space.loader_keys[space.loader_of[number]], space.loader_keys[space.loader_of[other]]
        apart = here.log_batch - there.log_batch
        follows = apart <= 0.0 if allowed else apart >= 0.0
        near = 1.0 if follows else math.exp(-0.5 * (apart / 1.2) ** 2)
        near *= math.exp(-0.5 * ((here.log_workers - there.log_workers) / 3.0) ** 2)
        same = space.device_keys[space.device_of[number]].others == space.device_keys[space.device_of[other]].others
        return near if same else 0.5 * near


def _felt(reading: ProbeResult) -> frozenset[Pair]:
    """Return the values that a probe could have failed of."""
    part = reading.probe.part
    return frozenset(
        (axis, value)
        for axis, value in reading.probe.point.items()
        if part is Part.WHOLE or axis == BATCH or (axis in LOADER_AXES) == (part is Part.LOADER)
    )


NEAR = 0.75  # of what the capacity leaves beyond the least peak measured: above it a batch is reached in steps
SPARE = 0.04  # a line through batches as large as half of this one is no further off
SURELY = 0.9  # of the capacity: where the smallest batch of values not tried yet is expected to end, at most
LEAP = 2.0  # how much larger than the largest batch measured the next may be there
WOBBLE = 0.01  # of a peak: what is resident in a process differs a little from trial to trial
SHORTER = 1.25  # what a shorter number format may need more: autocast keeps copies of the weights
OTHERWISE = 3.0  # what other values may need more, such as no checkpointing after checkpointing
_LENGTHS = {"fp32": 2, "tf32": 2, "bf16": 1, "fp16": 1}


class Fit(Enum):
    """Whether a batch fits into memory."""

    YES = "yes"
    PERHAPS = "perhaps"  # measure a smaller one first
    NO = "no"


class Memory:
    """Peaks by what the device sees of a point: a line over the batch for each combination of the other values."""

    def __init__(self, space: Space, capacity_bytes: float | None) -> None:
        self._space = space
        self._capacity = math.inf if capacity_bytes is None else capacity_bytes
        self._peaks: dict[Values, list[tuple[float, float]]] = {}
        self._failed: dict[Values, float] = {}  # the smallest batch at which memory ended
        self._smallest: dict[Values, float] = {}
        for key in space.device_keys:
            self._smallest[key.others] = min(key.batch, self._smallest.get(key.others, math.inf))

    def learn(self, readings: Iterable[ProbeResult]) -> None:
        """Take note of every peak, and of every end of memory."""
        self._peaks, self._failed = {}, {}
        for reading in readings:
            if reading.probe.part is Part.LOADER:
                continue
            key = self._space.device_keys[self._space.device_of[self._space.number[key_of(reading.probe.point)]]]
            if reading.status is Status.OUT_OF_MEMORY:
                self._failed[key.others] = min(key.batch, self._failed.get(key.others, math.inf))
            elif reading.status is Status.OK and reading.peak_bytes is not None:
                self._peaks.setdefault(key.others, []).append((key.batch, reading.peak_bytes))

    def fit(self, device: int) -> Fit:
        """Say whether a device key fits, and is no larger leap from what was measured than is wise."""
        key = self._space.device_keys[device]
        if key.batch >= self._failed.get(key.others, math.inf):
            return Fit.NO
        ceiling = self._ceiling()
        if math.isinf(ceiling):
            return Fit.YES
        peaks = self._peaks.get(key.others, [])
        measured = self.reached(key.others)
        if key.batch <= measured:
            return Fit.YES
        low, value, high = self._bounds(key.others, key.batch)
        if not peaks and key.batch == self._smallest[key.others] and value <= SURELY * ceiling:
            return Fit.YES  # with what else is a combination to begin?
        least = min((size for own in self._peaks.values() for _, size in own), default=0.0)
        if high <= least + NEAR * (ceiling - least):
            return Fit.YES
        if key.batch <= LEAP * measured:
            next_one = min(high, value * (1.0 + SPARE)) if len(peaks) > 1 else high
            return Fit.YES if next_one <= ceiling else Fit.NO
        return Fit.PERHAPS if (value if len(peaks) > 1 else low) - self._wobble(peaks, key.batch) <= ceiling else Fit.NO

    @staticmethod
    def _wobble(peaks: Sequence[tuple[float, float]], batch: float) -> float:
        """Return by how much a line may be too high there, as peaks of the same code differ."""
        batches = sorted({size for size, _ in peaks})
        if len(batches) < 2 or batch <= batches[-1]:
            return 0.0
        return WOBBLE * max(size for _, size in peaks) * (batch - batches[-1]) / (batches[-1] - batches[0])

    def reached(self, others: Values) -> float:
        """Return the largest batch measured of some values, 0 if none was."""
        return max((batch for batch, _ in self._peaks.get(others, [])), default=0.0)

    def _ceiling(self) -> float:
        """Return what a peak must stay below: the capacity, or less where memory ended before it."""
        ended = (self._bounds(others, batch)[1] for others, batch in self._failed.items() if self._peaks)
        return min(self._capacity, *ended) if self._failed and self._peaks else self._capacity

    def _bounds(self, others: Values, batch: float) -> tuple[float, float, float]:
        """Return a peak between bounds. From one batch: it grows no faster than the batch. From none: as others do."""
        own = self._peaks.get(others, [])
        alone = _from(own, batch) if own else None
        if len({size for size, _ in own}) > 1 or len(self._peaks) == (1 if own else 0):
            return alone or (0.0, 0.0, 0.0)  # nothing is known, and something must be tried
        lows, values, highs = [], [], []
        for measured, peaks in self._peaks.items():
            if measured != others:
                low, value, high = _from(peaks, batch)
                more = self._more(measured, others)
                lows.append(low / OTHERWISE)
                values.append(value)
                highs.append(high * more)
        low, value, high = min(lows), sum(values) / len(values), min(highs)
        if alone is not None:
            return max(low, alone[0]), min(max(value, alone[1]), alone[2]), min(high, alone[2])
        return low, value, high

    def _more(self, measured: Values, others: Values) -> float:
        """Return how much more memory some values may need than others that were measured."""
        differing = [
            (a, b, axis) for a, b, axis in zip(measured, others, self._space.device_axes, strict=True) if a != b
        ]
        shorter = all(
            axis == "precision" and _LENGTHS.get(str(a), 0) >= _LENGTHS.get(str(b), 3) for a, b, axis in differing
        )
        return SHORTER if shorter else OTHERWISE


def _from(peaks: list[tuple[float, float]], batch: float) -> tuple[float, float, float]:
    peak = predict_peak(peaks, batch)
    if peak is not None:
        return peak.low, peak.value, peak.high
    known, known_bytes = max(peaks)
    return known_bytes, known_bytes, known_bytes * max(1.0, batch / known)


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
            n for n in range(len(space.points)) if fits[space.device_of[n]] and not self._failures.out(n, Part.WHOLE)
        ]

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
