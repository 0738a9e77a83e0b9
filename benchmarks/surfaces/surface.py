"""What all surfaces have in common: 336 settings, their true worth, what a full trial of each costs, and trials.

A surface is searched as a device would be: a trial is asked for, its cost is paid, and a noisy reading comes back.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.search import Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status

AXES: Mapping[str, tuple[Scalar, ...]] = {
    "batch_size": tuple(2**n for n in range(14)),
    "num_workers": (0, 2, 4, 8, 12, 16),
    "precision": ("fp32", "bf16"),
    "pin_memory": (False, True),
}
POINTS: tuple[Point, ...] = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))
PRESENT: Point = {"batch_size": 32, "num_workers": 2, "precision": "fp32", "pin_memory": False}


class Spot(NamedTuple):
    """One setting, its values by name."""

    batch: int
    workers: int
    precision: str
    pin: bool


def spot_of(point: Point) -> Spot:
    """Read a point of AXES."""
    return Spot(*(point[axis] for axis in AXES))  # type: ignore[arg-type]  # AXES says which type each has


class Surface(ABC):
    """A device, a model and a data set, as a search sees them."""

    name: str
    capacity_bytes: float | None = None

    @abstractmethod
    def truth(self, point: Point) -> float | None:
        """Return the true items/s of a setting, or None if it does not fit into memory."""

    @abstractmethod
    def full_cost_s(self, point: Point) -> float:
        """Return what a full trial of a setting costs, in seconds."""

    @abstractmethod
    def trials(self, seed: int) -> Callable[[Probe], ProbeResult]:
        """Return a function that carries out trials, with noise of that seed."""

    @cached_property
    def best(self) -> float:
        """The highest true value of all settings that run."""
        return max(value for value in map(self.truth, POINTS) if value is not None)

    @cached_property
    def everything_s(self) -> float:
        """What a full trial of each setting costs together."""
        return sum(map(self.full_cost_s, POINTS))

    def brief(self, seed: int, most_cost_s: float | None = None) -> SearchProblem:
        """Return what a searcher is told of it."""
        return SearchProblem(AXES, POINTS, PRESENT, self.capacity_bytes, most_cost_s=most_cost_s, seed=seed)


def out_of_memory(probe: Probe, cost_s: float) -> ProbeResult:
    """Return the reading of a trial that did not fit."""
    return ProbeResult(probe, Status.OUT_OF_MEMORY, cost_s)
