"""The limits of a search: the cost of each probe, what fits into memory, and which points fail or are not allowed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np

from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.quality import QualityVerdict
from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.schema.trial import Status
from torchstone.core.stats.peak_memory import predict_peak
from torchstone.plugins.searchers.adaptive.gp import BATCH, DEVICE, LOADER, NUMBER_OF, WHOLE, Array, PointSpace

# A trial starts and builds (`start`; of the loader alone `loader_start`), starts workers (`worker`), fills and drains
# their queue (`drain` turns of PREFETCH steps of each), warms up and measures: `window` seconds at full effort, or
# `steps` steps, or TURNS turns of the queue, whichever takes longest. ln: prior mean and sd of these six.
_MEANS = np.log([1.0, 0.3, 0.03, 5.0, 8.0, 1.5])
_SDS = np.array([1.0, 1.0, 1.0, 1.3, 0.5, 0.4])
PREFETCH, TURNS = 2.0, 2.0
_MISFIT = 0.15  # how far this is from the truth, in ln
_STEPS = 6
_H = 1e-4


class ProbeCosts:
    """The cost of a probe as a function of its part, its workers, the time of its step and its effort."""

    def __init__(self, space: PointSpace) -> None:
        self._space, self._p = space, _MEANS

    def learn(self, readings: Sequence[ProbeResult]) -> None:
        """Fit to all readings so far, by Gauss and Newton's steps."""
        used = [r for r in readings if r.status is Status.OK and (r.step_s or 0.0) > 0.0 and r.cost_s > 0.0]
        parts = np.array([NUMBER_OF[r.probe.part] for r in used])
        workers = self._space.workers[[self._space.number_of(r.probe.point) for r in used]] if used else parts
        steps_s, efforts = np.array([r.step_s for r in used]), np.array([r.probe.effort for r in used])
        log_costs = np.log([r.cost_s for r in used])
        for _ in range(_STEPS if used else 0):
            moved = self._p + np.vstack([np.zeros(6), _H * np.eye(6)])
            logs = np.log(_cost_s(moved, parts, workers, steps_s, efforts))
            slopes = (logs[1:] - logs[0]) / _H
            normal = np.diag(_SDS**-2.0) + slopes @ slopes.T / _MISFIT**2
            right = (_MEANS - self._p) / _SDS**2 + slopes @ (log_costs - logs[0]) / _MISFIT**2
            moves = np.linalg.solve(normal, right)
            self._p = self._p + moves / max(1.0, float(np.abs(moves).max()))

    def of(self, points: Array, part: int, steps_s: Array, effort: float) -> Array:
        """Return the seconds that probes of these points will take, by the time of their steps."""
        return _cost_s(self._p, np.full(len(points), part), self._space.workers[points], steps_s, np.array(effort))

    @property
    def start_s(self) -> float:
        """The cost of a trial before its first step: that of one which fails there."""
        return math.exp(self._p[0])


def _cost_s(p: Array, parts: Array, workers: Array, steps_s: Array, efforts: Array) -> Array:
    start, loader_start, worker, window, steps, drain = (np.exp(p[..., k, None]) for k in range(6))
    workers = np.where(parts == DEVICE, 0, workers)
    turn_s = PREFETCH * workers * steps_s
    measured_s = np.maximum(np.maximum(window * efforts, steps * steps_s), TURNS * turn_s)
    costs_s: Array = np.where(parts == LOADER, loader_start, start) + workers * worker + drain * turn_s + measured_s
    return costs_s


_PRIOR = (0.75, 0.3)  # the prior probability that a point is allowed, and how many readings it is worth
_LIKELY = 0.5

Pair = tuple[str, Scalar]


class Failures:
    """Points that failed or are not as good, and those that probably fail or break a constraint."""

    def __init__(self, space: PointSpace) -> None:
        self._space = space

    def learn(self, readings: Sequence[ProbeResult]) -> None:
        """Set `out` (by part, points that no probe is worth), `lesser` of them and `likely` (probably allowed).

        An unsupported point's values are suspects, but those that ran elsewhere; what shares all suspects is out.
        `lesser` is not shown to be as good: asked again, the same items get the same answers, of a smaller batch in the
        same time fewer; what is worse is so at any batch.
        """
        space = self._space
        sound: set[Pair] = set()
        verdicts: list[tuple[int, bool]] = []
        self.out = np.zeros((3, len(space.points)), dtype=bool)
        self.lesser = np.zeros(len(space.points), dtype=bool)
        for reading in readings:
            number, part = space.number_of(reading.probe.point), NUMBER_OF[reading.probe.part]
            if reading.status is Status.OK:
                sound |= _used(reading)
                if part == WHOLE:
                    verdicts.append((number, reading.allowed))
                if reading.quality is not None:
                    fewer = space.batch <= space.batch[number]
                    worse = reading.quality is QualityVerdict.WORSE
                    self.lesser |= (space.variants == space.variants[number]) & (worse | fewer)
                continue
            ids = (np.arange(len(space.points)), space.device, space.loader)[part]
            self.out[part] |= ids == ids[number]
            if reading.status not in {Status.UNSUPPORTED, Status.OUT_OF_MEMORY}:
                verdicts.append((number, False))
        self.out[WHOLE] |= self.out[DEVICE] | self.lesser
        for reading in readings:
            if reading.status is Status.UNSUPPORTED and (suspects := _used(reading) - sound):
                self.out |= np.array([suspects <= point.items() for point in space.points])
        self.likely = self._likely(verdicts)

    def _likely(self, verdicts: Sequence[tuple[int, bool]]) -> Array:
        """Return which points probably run and keep to the constraints.

        A batch larger than one that broke them is taken to break them too, and a smaller one than one that kept them
        to keep them, as for memory and for the time of a step; other values count by how near they are.
        """
        space = self._space
        likely = np.ones(len(space.points), dtype=bool)
        if all(allowed for _, allowed in verdicts):
            return likely
        believed, weight = _PRIOR
        weights, total = np.full(len(likely), weight), np.full(len(likely), believed * weight)
        for number, allowed in verdicts:
            apart = space.log_batch - space.log_batch[number]
            follows = apart <= 0.0 if allowed else apart >= 0.0
            near = np.where(follows, 1.0, np.exp(-0.5 * (apart / 1.2) ** 2))
            near *= np.exp(-0.5 * ((space.log_workers - space.log_workers[number]) / 3.0) ** 2)
            near *= np.where(space.values == space.values[number], 1.0, 0.5)
            weights += near
            total += near * allowed
        likely = total >= _LIKELY * weights
        for number, allowed in verdicts:
            likely[number] = allowed
        return likely


def _used(reading: ProbeResult) -> frozenset[Pair]:
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
Peaks = Sequence[tuple[float, float]]  # batch, bytes


class MemoryFit(Enum):
    """Whether a batch fits into memory."""

    YES = "yes"
    PERHAPS = "perhaps"  # measure a smaller one first
    NO = "no"


class Memory:
    """Peaks by what the device sees of a point: a line over the batch for each combination of the other values."""

    def __init__(self, space: PointSpace, capacity_bytes: float | None) -> None:
        self._space = space
        self._capacity = math.inf if capacity_bytes is None else capacity_bytes
        self._smallest = {v: float(space.batch[space.values == v].min()) for v in map(int, np.unique(space.values))}
        self.learn([])

    def learn(self, readings: Iterable[ProbeResult]) -> None:
        """Take note of every peak, and of every end of memory; set `fits`, by point."""
        space = self._space
        self._peaks: dict[int, list[tuple[float, float]]] = {}
        self._failed: dict[int, float] = {}  # the smallest batch at which memory ended
        for reading in readings:
            number = space.number_of(reading.probe.point)
            values, batch = int(space.values[number]), float(space.batch[number])
            if reading.probe.part is Part.LOADER:
                continue
            if reading.status is Status.OUT_OF_MEMORY:
                self._failed[values] = min(batch, self._failed.get(values, math.inf))
            elif reading.status is Status.OK and reading.peak_bytes is not None:
                self._peaks.setdefault(values, []).append((batch, reading.peak_bytes))
        fits: dict[tuple[int, float], MemoryFit] = {}
        for key in zip(map(int, space.values), map(float, space.batch), strict=True):
            if key not in fits:
                fits[key] = self._fit(*key)
        self.fits = [fits[key] for key in zip(map(int, space.values), map(float, space.batch), strict=True)]

    def _fit(self, values: int, batch: float) -> MemoryFit:
        """Say whether a batch fits, and is no larger leap from what was measured than is wise."""
        if batch >= self._failed.get(values, math.inf):
            return MemoryFit.NO
        ceiling = self._ceiling()
        peaks = self._peaks.get(values, [])
        reached = max((size for size, _ in peaks), default=0.0)
        if math.isinf(ceiling) or batch <= reached:
            return MemoryFit.YES
        low, value, high = self._bounds(values, batch)
        if not peaks and batch == self._smallest[values] and value <= SURELY * ceiling:
            return MemoryFit.YES  # with what else is a combination to begin?
        least = min((size for own in self._peaks.values() for _, size in own), default=0.0)
        if high <= least + NEAR * (ceiling - least):
            return MemoryFit.YES
        if batch <= LEAP * reached:
            next_one = min(high, value * (1.0 + SPARE)) if len(peaks) > 1 else high
            return MemoryFit.YES if next_one <= ceiling else MemoryFit.NO
        return (
            MemoryFit.PERHAPS if (value if len(peaks) > 1 else low) - _wobble(peaks, batch) <= ceiling else MemoryFit.NO
        )

    def _ceiling(self) -> float:
        """Return what a peak must stay below: the capacity, or less where memory ended before it."""
        ended = (self._bounds(values, batch)[1] for values, batch in self._failed.items() if self._peaks)
        return min(self._capacity, *ended) if self._failed and self._peaks else self._capacity

    def _bounds(self, values: int, batch: float) -> tuple[float, float, float]:
        """Return a peak between bounds. From one batch: it grows no faster than the batch. From none: as others do."""
        own = self._peaks.get(values, [])
        alone = _from(own, batch) if own else None
        if len({size for size, _ in own}) > 1 or len(self._peaks) == (1 if own else 0):
            return alone or (0.0, 0.0, 0.0)  # nothing is measured, and something must be tried
        others = [(_from(peaks, batch), self._more(m, values)) for m, peaks in self._peaks.items() if m != values]
        low = min(low / OTHERWISE for (low, _, _), _ in others)
        value = statistics.mean(value for (_, value, _), _ in others)
        high = min(high * more for (_, _, high), more in others)
        if alone is not None:
            return max(low, alone[0]), min(max(value, alone[1]), alone[2]), min(high, alone[2])
        return low, value, high

    def _more(self, measured: int, values: int) -> float:
        """Return how much more memory some values may need than others that were measured."""
        one, other = (self._space.points[int(np.argmax(self._space.values == v))] for v in (measured, values))
        differing = [axis for axis in self._space.device_axes if one[axis] != other[axis]]
        lengths = _LENGTHS.get(str(one.get("precision")), 0), _LENGTHS.get(str(other.get("precision")), 3)
        return SHORTER if differing == ["precision"] and lengths[0] >= lengths[1] else OTHERWISE


def _wobble(peaks: Peaks, batch: float) -> float:
    """Return by how much a line may be too high there, as peaks of the same code differ."""
    batches = sorted({size for size, _ in peaks})
    if len(batches) < 2 or batch <= batches[-1]:
        return 0.0
    return WOBBLE * max(size for _, size in peaks) * (batch - batches[-1]) / (batches[-1] - batches[0])


def _from(peaks: Peaks, batch: float) -> tuple[float, float, float]:
    peak = predict_peak(peaks, batch)
    if peak is not None:
        return peak.low, peak.value, peak.high
    largest, size = max(peaks)
    return size, size, size * max(1.0, batch / largest)
