"""Which points may be probed without walking into the end of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum

from torchstone.searchers._ledger import key_of
from torchstone.searchers._space import Space, Values
from torchstone.stats.peak_memory import predict_peak
from torchstone.terms.search import Part, Reading
from torchstone.terms.trial import Status

NEAR = 0.75  # of the capacity: beyond it a batch is reached in steps
LEAP = 2.0  # how much larger than the largest batch measured the next may be there
OTHER_VALUES = 1.25  # what another precision, say, may need more than those measured


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

    def learn(self, readings: Iterable[Reading]) -> None:
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
        measured = max((batch for batch, _ in peaks), default=0.0)
        if key.batch <= measured:
            return Fit.YES
        low, value, high = self._bounds(key.others, key.batch)
        if high <= NEAR * ceiling:
            return Fit.YES
        if key.batch <= LEAP * measured:
            return Fit.YES if high <= ceiling else Fit.NO
        return Fit.PERHAPS if (value if len(peaks) > 1 else low) <= ceiling else Fit.NO

    def _ceiling(self) -> float:
        """Return what a peak must stay below: the capacity, or less where memory ended before it."""
        ended = (self._bounds(others, batch)[1] for others, batch in self._failed.items() if self._peaks)
        return min(self._capacity, *ended) if self._failed and self._peaks else self._capacity

    def _bounds(self, others: Values, batch: float) -> tuple[float, float, float]:
        """Return a peak between bounds. From one batch: it grows no faster than the batch. From none: as others do."""
        own = self._peaks.get(others, [])
        bounds = [_from(peaks, batch) for values, peaks in self._peaks.items() if values != others]
        alone = len({size for size, _ in own}) < 2
        if not alone or not bounds:
            return _from(own, batch) if own else (0.0, 0.0, 0.0)  # nothing is known, and something must be tried
        lows, values, highs = (list(column) for column in zip(*bounds, strict=True))
        low, value, high = min(lows) / OTHER_VALUES, sum(values) / len(values), max(highs) * OTHER_VALUES
        if own:
            least, _, most = _from(own, batch)
            return max(low, least), min(max(value, least), most), min(high, most)
        return low, value, high


def _from(peaks: list[tuple[float, float]], batch: float) -> tuple[float, float, float]:
    peak = predict_peak(peaks, batch)
    if peak is not None:
        return peak.low, peak.value, peak.high
    known, known_bytes = max(peaks)
    return known_bytes, known_bytes, known_bytes * max(1.0, batch / known)
