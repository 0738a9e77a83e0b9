"""Two fingerprints are equal if no entry differs by more than a thousandth of the largest: decided here alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torchstone.core.figures import raw
from torchstone.core.schema.trial import Trial

TOLERANCE = 1e-3  # equal programs on one kind of device and one torch agree to far less


class Entries(NamedTuple):
    """One entry of two fingerprints. `difference`: relative to the largest entry; inf where only one is a number."""

    difference: float
    one: float
    other: float

    @property
    def differ(self) -> bool:
        """Whether that is more than equal programs differ by."""
        return self.difference > TOLERANCE


def fingerprint_of(trials: Iterable[Trial]) -> tuple[float, ...]:
    """Return the fingerprint of the first trial that has one; empty where none has."""
    return next((found for trial in trials if (found := raw(trial, "fingerprint"))), ())


def repeats(*sides: Sequence[Trial]) -> bool:
    """Return whether equal programs would show one fingerprint: a seed is the same on all sides, and no side differs.

    A program that sets no seed has another one in each trial.
    """
    if not set.intersection(*({trial.facts.seed for trial in side} for side in sides)):
        return False
    prints = [[found for trial in side if (found := raw(trial, "fingerprint"))] for side in sides]
    return all(first_differing(own[0], other) is None for own in prints for other in own[1:])


def furthest(one: Sequence[float], other: Sequence[float]) -> Entries | None:
    """Return the entries that lie furthest apart; None where one of the fingerprints is empty."""
    return max(_apart(one, other), key=lambda entries: entries.difference, default=None)


def first_differing(one: Sequence[float], other: Sequence[float]) -> Entries | None:
    """Return the first entries that differ; None where the fingerprints are equal, or one of them is empty."""
    return next((entries for entries in _apart(one, other) if entries.differ), None)


def _apart(one: Sequence[float], other: Sequence[float]) -> list[Entries]:
    # Moments of an output lie near 0 by design: relative to itself, such an entry moves with the last bit.
    scale = max((abs(value) for value in (*one, *other) if math.isfinite(value)), default=0.0)
    return [Entries(_difference(a, b, scale), a, b) for a, b in zip(one, other, strict=False)]


def _difference(a: float, b: float, scale: float) -> float:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) / scale if scale > 0.0 else 0.0
    return 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else math.inf
