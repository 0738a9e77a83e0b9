"""Which points may be probed without running out of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum

from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.schema.trial import Status
from torchstone.core.stats.peak_memory import predict_peak
from torchstone.plugins.searchers._ledger import key_of
from torchstone.plugins.searchers.adaptive.space import Space, Values

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
