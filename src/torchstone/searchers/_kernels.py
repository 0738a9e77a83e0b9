"""How alike points are expected to be in what the structure of a step does not tell."""

from __future__ import annotations

import math
from typing import NamedTuple

from torchstone.searchers._space import Space


class Amplitudes(NamedTuple):
    """How far reality may be from the structure, in ln."""

    device: float = 0.10
    device_values: float = 0.07
    device_key: float = 0.03
    loader: float = 0.10
    loader_workers: float = 0.04
    whole: float = 0.06
    point: float = 0.01


class Kernels:
    """Squared exponentials over log2(batch) and log2(1 + workers) (Rasmussen & Williams 2006, §4.2), in ln squared."""

    def __init__(self, space: Space, amplitudes: Amplitudes) -> None:
        self._space, self._amplitudes = space, amplitudes
        self._known: dict[tuple[int, int, int], float] = {}

    def device(self, a: int, b: int) -> float:
        """Return the prior covariance of what the structure leaves over at two device keys."""
        found = self._known.get((0, a, b))
        if found is None:
            one, other = self._space.device_keys[a], self._space.device_keys[b]
            size = self._amplitudes
            apart = one.log_batch - other.log_batch
            found = size.device**2 * _near(apart, 2.5)
            if one.others == other.others:
                found += size.device_values**2 * _near(apart, 2.0)
            if a == b:
                found += size.device_key**2
            self._known[0, a, b] = found
        return found

    def loader(self, a: int, b: int) -> float:
        """Return the same of two loader keys."""
        found = self._known.get((1, a, b))
        if found is None:
            one, other = self._space.loader_keys[a], self._space.loader_keys[b]
            size = self._amplitudes
            batches = _near(one.log_batch - other.log_batch, 3.0) * (1.0 if one.others == other.others else 0.8)
            found = size.loader**2 * batches * _near(one.log_workers - other.log_workers, 1.5)
            if one.workers == other.workers:
                found += size.loader_workers**2 * batches
            self._known[1, a, b] = found
        return found

    def point(self, a: int, b: int) -> float:
        """Return the same of two points, of what is left over by their parts, too."""
        found = self._known.get((2, a, b))
        if found is None:
            space, size = self._space, self._amplitudes
            one, other = space.loader_keys[space.loader_of[a]], space.loader_keys[space.loader_of[b]]
            near = _near(one.log_batch - other.log_batch, 2.5) * _near(one.log_workers - other.log_workers, 1.2)
            if space.pinned[a] != space.pinned[b]:
                near *= 0.9
            values = space.device_keys[space.device_of[a]].others, space.device_keys[space.device_of[b]].others
            if values[0] != values[1]:
                near *= 0.7
            found = size.whole**2 * near
            if a == b:
                found += size.point**2
            self._known[2, a, b] = found
        return found


def _near(apart: float, length: float) -> float:
    ratio = apart / length
    return math.exp(-0.5 * ratio * ratio)
