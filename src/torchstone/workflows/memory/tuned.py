"""The settings that `tune` would try on a card that is not here: which of them fit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.cards import Card
from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.search import Point
from torchstone.execution import machine_facts
from torchstone.workflows.memory.answer import Row
from torchstone.workflows.memory.prediction import Asked
from torchstone.workflows.tune.request import TuneRequest, TuneSketch
from torchstone.workflows.tune.space import Space


class Tried(msgspec.Struct, frozen=True):
    """The points of a tune on a card, as far as the device sees them, and what to ask of each combination of others."""

    points: tuple[Point, ...]
    asked: tuple[Asked, ...]


def tried_on(request: TuneRequest, card: Card) -> Tried:
    """Return what a tune of the request would try on that card. Raises UsageError for what is wrong with it."""
    sketch = TuneSketch(request)
    info = card.info()
    spec = sketch.spec(Placement(card.kind), Machine(machine_facts.host(), (info,), {}, {}), 1)
    space = Space(spec)
    points: dict[tuple[Scalar, ...], Point] = {}
    asked: dict[tuple[Scalar, ...], Asked] = {}
    for point in space.points:
        seen = {axis: value for axis, value in point.items() if axis not in LOADER_AXES}
        points.setdefault(tuple(seen.values()), seen)
        others = tuple(value for axis, value in seen.items() if axis != "batch_size")
        asked.setdefault(others, Asked(card, space.case(point), sketch.sketch.left_open))
    return Tried(tuple(points.values()), tuple(asked.values()))


def fitting(tried: Tried, rows: Sequence[Row]) -> int:
    """Return how many of the points fit, with a tenth of the memory free."""
    count = 0
    for point in tried.points:
        for row in rows:
            same = all(row.configuration.get(axis) == value for axis, value in point.items() if axis != "batch_size")
            size = point.get("batch_size", row.configuration.get("batch_size"))
            if same and row.largest is not None and int(size or 1) <= row.largest.batch_size:
                count += 1
    return count
