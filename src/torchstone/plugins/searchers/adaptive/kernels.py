"""How alike points are expected to be in what the structure of a step does not tell, and how noisy readings are.

Noise is of ln, on a quiet machine: about what benchmarks/surfaces/noise.py tells of a small and of a large net.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torchstone.plugins.searchers.adaptive.space import Space

TRIAL_SD = 0.028  # between trials of the same code
WITHIN_S, WITHIN_SD = 5e-4, 0.055  # variance within a window: so much ÷ its seconds, at most that squared
WINDOW_S = 5.0  # a full window where it is not told
DRIFT_SD, DRIFT_S = 0.03, 150.0  # what trials near in time have in common


class Amplitudes(NamedTuple):
    """How far reality may be from the structure, in ln."""

    device: float = 0.10
    device_values: float = 0.07
    device_key: float = 0.04
    loader: float = 0.10
    loader_workers: float = 0.04
    whole: float = 0.12
    serial: float = 0.7  # of `whole`, without workers: loader and device take turns, and their times add up
    far: float = 0.3  # share of `whole` (squared) that changes slowly, so that a trend goes on
    point: float = 0.01


class Kernels:
    """Squared exponentials over log2(batch) and log2(1 + workers) (Rasmussen & Williams 2006, §4.2), in ln squared."""

    def __init__(self, space: Space, amplitudes: Amplitudes) -> None:
        self._space, self._amplitudes = space, amplitudes
        self._devices: dict[int, float] = {}
        self._loaders: dict[int, float] = {}
        self._points: dict[int, float] = {}
        self._stride = len(space.points)

    def device(self, a: int, b: int) -> float:
        """Return the prior covariance of what the structure leaves over at two device keys."""
        found = self._devices.get(a * self._stride + b)
        if found is None:
            one, other = self._space.device_keys[a], self._space.device_keys[b]
            size = self._amplitudes
            apart = one.log_batch - other.log_batch
            found = size.device**2 * _near(apart, 2.5)
            if one.others == other.others:
                found += size.device_values**2 * _near(apart, 2.0)
            if a == b:
                found += size.device_key**2
            self._devices[a * self._stride + b] = found
        return found

    def loader(self, a: int, b: int) -> float:
        """Return the same of two loader keys."""
        found = self._loaders.get(a * self._stride + b)
        if found is None:
            one, other = self._space.loader_keys[a], self._space.loader_keys[b]
            size = self._amplitudes
            batches = _near(one.log_batch - other.log_batch, 3.0) * (1.0 if one.others == other.others else 0.8)
            found = size.loader**2 * batches * _near(one.log_workers - other.log_workers, 1.5)
            if one.workers == other.workers:
                found += size.loader_workers**2 * batches
            self._loaders[a * self._stride + b] = found
        return found

    def point(self, a: int, b: int) -> float:
        """Return the same of two points, of what is left over by their parts, too."""
        found = self._points.get(a * self._stride + b)
        if found is None:
            space, size = self._space, self._amplitudes
            one, other = space.loader_keys[space.loader_of[a]], space.loader_keys[space.loader_of[b]]
            batches, workers = one.log_batch - other.log_batch, one.log_workers - other.log_workers
            near = size.far * _near(batches, 5.0) * _near(workers, 3.0)
            near += (1.0 - size.far) * _near(batches, 2.5) * _near(workers, 1.5)
            if one.workers <= 0 and other.workers <= 0:
                near *= size.serial**2
            elif one.workers <= 0 or other.workers <= 0:  # another program
                near *= size.serial * 0.3
            if space.pinned[a] != space.pinned[b]:
                near *= 0.98
            values = space.device_keys[space.device_of[a]].others, space.device_keys[space.device_of[b]].others
            if values[0] != values[1]:
                near *= 0.7
            found = size.whole**2 * near
            if a == b:
                found += size.point**2
            self._points[a * self._stride + b] = found
        return found


def _near(apart: float, length: float) -> float:
    ratio = apart / length
    return math.exp(-0.5 * ratio * ratio)


def noise_variance(window_s: float) -> float:
    """Return the variance of a reading's own noise, its window that long."""
    return TRIAL_SD**2 + min(WITHIN_SD**2, WITHIN_S / max(1e-9, window_s))


def drift(apart_s: float) -> float:
    """Return the covariance of the drift of two readings, so many seconds apart."""
    return DRIFT_SD**2 * math.exp(-abs(apart_s) / DRIFT_S)
