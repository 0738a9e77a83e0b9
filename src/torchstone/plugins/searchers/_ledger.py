"""The probes and readings of a search so far, its remaining budget, and the best points."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.search import Part, Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status

Search = Generator[Probe, ProbeResult, Sequence[Point]]
FINALISTS = 3  # points in the final round, unless a searcher has a reason to name others


def key_of(point: Point) -> frozenset[tuple[str, Scalar]]:
    """Return what a point is told apart by."""
    return frozenset(point.items())


def value_of(reading: ProbeResult) -> float | None:
    """Return the value of a valid reading: ok, and a finite number."""
    if reading.status is not Status.OK or reading.value is None or not math.isfinite(reading.value):
        return None
    return reading.value


class Ledger:
    """The readings of one search, and what its SearchProblem still allows."""

    def __init__(self, brief: SearchProblem) -> None:
        self.brief = brief
        self.readings: list[ProbeResult] = []
        self.spent_s = 0.0

    def write(self, reading: ProbeResult) -> None:
        """Add one reading."""
        self.readings.append(reading)
        self.spent_s += reading.cost_s

    def open(self, cost_s: float = 0.0) -> bool:
        """Say whether another probe, of about that cost, is within the budget."""
        brief = self.brief
        if brief.most_probes is not None and len(self.readings) >= brief.most_probes:
            return False
        if brief.most_cost_s is None:
            return True
        return self.spent_s < brief.most_cost_s and self.spent_s + cost_s <= brief.most_cost_s

    def mean_cost_s(self) -> float:
        """Return what a probe has cost so far, in the mean; 0 before the first."""
        return self.spent_s / len(self.readings) if self.readings else 0.0

    def best(self, count: int = FINALISTS) -> list[Point]:
        """Return the points of the highest mean value among those measured end to end and allowed, best first."""
        values: dict[object, list[float]] = {}
        points: dict[object, Point] = {}
        for reading in self.readings:
            value = value_of(reading)
            if value is None or not reading.allowed or reading.probe.part is not Part.WHOLE:
                continue
            key = key_of(reading.probe.point)
            values.setdefault(key, []).append(value)
            points.setdefault(key, reading.probe.point)
        ranked = sorted(points, key=lambda key: -sum(values[key]) / len(values[key]))
        return [points[key] for key in ranked[:count]]


def in_turn(brief: SearchProblem, points: Iterable[Point]) -> Search:
    """Try points one after another, end to end and in full, as long as the budget lasts."""
    ledger = Ledger(brief)
    for number, point in enumerate(points, 1):
        if not ledger.open(ledger.mean_cost_s()):
            break
        ledger.write((yield Probe(point, why=f"point {number} of {len(brief.points)}")))
    return ledger.best()
