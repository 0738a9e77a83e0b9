"""What is known of a step before any is measured: how loader, transfer and device share its time.

A device issues a batch in `launch` and computes it at `item` an item, the longer of the two counting softly (Williams,
Waterman & Patterson, Roofline, CACM 52(4), 2009): small batches are launch-bound, large ones saturate. A loader spends
`work` on an item and `batch` on each batch, divided among workers until cores run out (Amdahl 1967) and contention
takes over (the linear term of Gunther's universal scalability law, 1993); handing a batch over is serial. Without
workers loader and device take turns; with them they overlap, more or less (`overlap`). Every parameter has a prior, so
that a few readings are enough, and is the logarithm of what it stands for, so that errors are relative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchstone.plugins.searchers.adaptive.space import BATCH, DeviceKey, LoaderKey, Space

Parameters = Sequence[float]
OFFSET_SD = 0.5  # ln: what a precision, a compile mode, … may do to the time of an item
LAUNCH_OFFSET_SD = 0.3  # ln: and to that of a launch: autocast casts

_PRIORS: Mapping[str, tuple[float, float]] = {  # natural logarithms: mean, sd
    "launch": (math.log(3e-3), 1.7),
    "item": (math.log(1e-3), 3.0),
    "sharpness": (0.5, 0.4),  # 1: launch and compute add up, as on a CPU; large: they overlap
    "work": (math.log(1e-3), 2.5),
    "batch": (math.log(3e-4), 0.8),
    "cores": (math.log(5.0), 1.0),  # beside the first
    "contention": (math.log(0.12), 0.8),
    "handover": (math.log(6e-4), 1.0),
    "handover_item": (math.log(0.02), 1.0),  # as a share of `work`
    "overlap": (1.0, 1.5),
    "transfer": (math.log(0.05), 1.3),  # of an item, as a share of `item`
    "pinned": (math.log(0.25), 0.4),  # as a share of `transfer`
    "felt": (math.log(0.03), 1.3),  # share of the loader's work that the device feels: they share cores
}
NAMES = tuple(_PRIORS)
(_LAUNCH, _ITEM, _SHARP, _WORK, _BATCH, _CORES, _CONTENTION, _HAND, _HAND_ITEM, _OVERLAP, _TRANSFER, _PINNED,
 _FELT) = range(len(NAMES))  # fmt: skip


class Whole(NamedTuple):
    """ln of the time of an item, end to end, and how much of it follows the device's and the loader's own time."""

    log_s: float
    of_device: float
    of_loader: float


class Structure:
    """The parametric part of a belief about a separable objective. Values are -ln(items/s), that is ln(s an item)."""

    def __init__(self, space: Space) -> None:
        self._space = space
        offsets = [
            (position, value)
            for position in range(len(space.device_axes))
            for value in dict.fromkeys(c[position] for c in space.combinations)
        ]
        base = len(NAMES)
        number = {offset: base + n for n, offset in enumerate(offsets)}
        self._offsets = {
            c: tuple(number[position, value] for position, value in enumerate(c)) for c in space.combinations
        }
        self._launches = {c: tuple(n + len(offsets) for n in own) for c, own in self._offsets.items()}
        self.of_device: Sequence[int] = (_LAUNCH, _ITEM, _SHARP, *range(base, base + 2 * len(offsets)))
        self.of_loader: Sequence[int] = (_WORK, _BATCH, _CORES, _CONTENTION, _HAND, _HAND_ITEM)
        self.of_whole: Sequence[int] = (_ITEM, _WORK, _HAND, _HAND_ITEM, _OVERLAP, _TRANSFER, _PINNED, _FELT)
        self.means = [mean for mean, _ in _PRIORS.values()] + [0.0] * (2 * len(offsets))
        self.sds = [sd for _, sd in _PRIORS.values()] + [OFFSET_SD] * len(offsets) + [LAUNCH_OFFSET_SD] * len(offsets)

    def device(self, p: Parameters, key: DeviceKey) -> float:
        """Return ln of the device's time for an item."""
        log_item = p[_ITEM] + sum(p[n] for n in self._offsets[key.others])
        log_launch = p[_LAUNCH] + sum(p[n] for n in self._launches[key.others])
        sharp = math.exp(p[_SHARP])
        return log_item + _log_add(0.0, sharp * (log_launch - log_item) - sharp * math.log(key.batch)) / sharp

    def loader(self, p: Parameters, key: LoaderKey) -> float:
        """Return ln of the loader's time for an item."""
        work = math.exp(p[_WORK]) + math.exp(p[_BATCH]) / key.batch
        if key.workers <= 0:
            return math.log(work)
        cores = 1.0 + math.exp(p[_CORES])
        hands = (key.workers**-4.0 + cores**-4.0) ** -0.25
        crowd = 1.0 + math.exp(p[_CONTENTION]) * max(0.0, key.workers - cores) / cores
        return math.log(((work * crowd / hands) ** 4.0 + self._handover(p, key) ** 4.0) ** 0.25)

    @staticmethod
    def _handover(p: Parameters, key: LoaderKey) -> float:
        return math.exp(p[_HAND]) / key.batch + math.exp(p[_WORK] + p[_HAND_ITEM])

    def whole(self, p: Parameters, point: int, log_device: float, log_loader: float) -> Whole:
        """Return a whole step's time for an item, from the device's and the loader's (ln)."""
        space = self._space
        key = space.loader_keys[space.loader_of[point]]
        device, loader = math.exp(log_device), math.exp(log_loader)
        crossing = math.exp(p[_ITEM] + p[_TRANSFER])
        busy = device + crossing * (math.exp(p[_PINNED]) if space.pinned[point] else 1.0)
        if key.workers <= 0:
            total = busy + loader
            return Whole(math.log(total), device / total, loader / total)
        busy += math.exp(p[_WORK] + p[_FELT]) + 0.3 * self._handover(p, key)
        q = 1.0 + math.exp(p[_OVERLAP])
        ratio = q * (math.log(busy) - log_loader)
        share = 1.0 / (1.0 + math.exp(min(700.0, -ratio)))
        return Whole(log_loader + _log_add(0.0, ratio) / q, share * device / busy, 1.0 - share)


class Flat:
    """The same for an objective that is not a rate: a line over ln(batch), and an offset for each other value."""

    def __init__(self, space: Space) -> None:
        self._space = space
        axes = [axis for axis in space.axes if axis != BATCH]
        offsets = list(dict.fromkeys((axis, point[axis]) for axis in axes for point in space.points))
        number = {offset: 2 + n for n, offset in enumerate(offsets)}
        self._offsets = [tuple(number[axis, point[axis]] for axis in axes) for point in space.points]
        self.of_device: Sequence[int] = ()
        self.of_loader: Sequence[int] = ()
        self.of_whole: Sequence[int] = range(2 + len(offsets))
        self.means = [0.0, 0.0] + [0.0] * len(offsets)
        self.sds = [10.0, 0.7] + [OFFSET_SD] * len(offsets)

    def device(self, p: Parameters, key: DeviceKey) -> float:
        """Return 0: there are no parts."""
        return 0.0

    def loader(self, p: Parameters, key: LoaderKey) -> float:
        """Return 0: there are no parts."""
        return 0.0

    def whole(self, p: Parameters, point: int, log_device: float, log_loader: float) -> Whole:
        """Return -ln of the objective."""
        batch = self._space.device_keys[self._space.device_of[point]].log_batch
        return Whole(p[0] + p[1] * batch + sum(p[n] for n in self._offsets[point]), 0.0, 0.0)


def _log_add(a: float, b: float) -> float:
    """Return ln(eᵃ + eᵇ)."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))
