"""Which points are out, because they or their like did not run or broke a constraint."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers._ledger import key_of
from torchstone.plugins.searchers.adaptive.space import BATCH, Space

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
