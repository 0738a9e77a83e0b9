"""The points of a search, sorted by what matters to which part of a step."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

from torchstone.core.schema.axis import LOADER_AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.search import Part, Point, SearchProblem
from torchstone.plugins.searchers._ledger import key_of

BATCH, WORKERS, PIN = "batch_size", "num_workers", "pin_memory"
BOTH = axes_of(AxisStage.BATCH, AxisStage.ITEM, AxisStage.HOST)  # what loader and device both feel

Values = tuple[Scalar, ...]
Key = TypeVar("Key")


class DeviceKey(NamedTuple):
    """What the device sees of a point: a batch, and the values of the other axes that matter to it."""

    batch: float
    log_batch: float
    others: Values


class LoaderKey(NamedTuple):
    """What the loader sees of a point."""

    batch: float
    log_batch: float
    workers: int
    log_workers: float
    others: Values


class Space:
    """Every point once, with the keys of its device's and its loader's part."""

    def __init__(self, brief: SearchProblem) -> None:
        unique = {key_of(point): point for point in brief.points}
        self.points: tuple[Point, ...] = tuple(unique.values())
        self.number = {key: n for n, key in enumerate(unique)}
        self.axes = tuple(axis for axis in brief.axes if len({point[axis] for point in self.points}) > 1)
        self.device_axes = tuple(a for a in self.axes if a != BATCH and a not in LOADER_AXES)
        self.loader_axes = tuple(a for a in self.axes if a in BOTH + LOADER_AXES and a not in {BATCH, WORKERS, PIN})
        self.device_keys: list[DeviceKey] = []
        self.loader_keys: list[LoaderKey] = []
        self.pinned = [point.get(PIN) is True for point in self.points]
        self.device_of = _numbered([self._device_key(p) for p in self.points], self.device_keys)
        self.loader_of = _numbered([self._loader_key(p) for p in self.points], self.loader_keys)
        self.combinations = sorted({k.others for k in self.device_keys}, key=[k.others for k in self.device_keys].index)

    def _device_key(self, point: Point) -> DeviceKey:
        batch = _positive(point.get(BATCH))
        return DeviceKey(batch, math.log2(batch), tuple(point.get(a) for a in self.device_axes))

    def _loader_key(self, point: Point) -> LoaderKey:
        batch = _positive(point.get(BATCH))
        given = point.get(WORKERS, 1)  # unknown: there are some
        workers = int(given) if isinstance(given, int | float) else 1
        others = tuple(point.get(a) for a in self.loader_axes)
        return LoaderKey(batch, math.log2(batch), workers, math.log2(1 + max(0, workers)), others)

    def key(self, number: int, part: Part) -> tuple[Part, int]:
        """Return what a probe of a part of a point measures: equal keys tell the same."""
        return part, {Part.WHOLE: number, Part.DEVICE: self.device_of[number], Part.LOADER: self.loader_of[number]}[
            part
        ]


def _numbered(keys: list[Key], distinct: list[Key]) -> list[int]:
    numbers: dict[Key, int] = {}
    for key in keys:
        if key not in numbers:
            numbers[key] = len(distinct)
            distinct.append(key)
    return [numbers[key] for key in keys]


def _positive(value: Scalar) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 1.0
