"""The highest rate of arrivals at which a share of the queries is answered within a bound: how it is looked for.

First a bracket, by steps and bisection of the rate's logarithm, in short: a generator, so that trials and simulated
queues answer it alike. Then rounds of loads at three rates about it; where a line through the logarithms of the shares
of late queries reaches what is allowed, there is the rate. The logarithm of that share is linear in the rate: exactly
in an M/M/1 queue, whose times are exponential with rate (service - arrivals), and in heavy traffic in any queue with
one server (Kleinrock, Queueing Systems I, 1975, §3.2, and II, 1976, §2.1). Counts of late queries are taken rather than
percentiles: their mean does not depend on how long a load is, where that of a high percentile does.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import NamedTuple

from torchstone.core.stats.calibration import Count, Crossing, crossing

ALLOWED = 0.01  # of the queries may be late: the 99th percentile keeps to the bound
_FIRST = 0.7  # of the capacity
_STEP = 1.4
_LEAST = 1.0 / 32.0  # of the capacity: where not even so few queries meet the bound, none do
_MOST = 8.0
_CLOSE = 1.1  # the bracket that the rounds take over
SPREAD = (0.92, 1.0, 1.08)  # the rates of a round, about the estimate
_NEAR = 1.5  # loads at rates farther from the crossing do not tell where the line is there
_OVERLOADED = 0.5  # with so large a share of late queries, the queue grows as long as it is watched
_MOVED = 0.04
_SHIFT = 1.2


class Reading(NamedTuple):
    """What a load at a rate told: how many of its queries were late; `of` is 0 where it measured none."""

    rate: float
    late: float
    of: float

    @property
    def met(self) -> bool:
        """Whether it kept to the bound."""
        return self.of > 0.0 and self.late <= ALLOWED * self.of


class Bracket(NamedTuple):
    """The highest rate that met the bound and the lowest that did not; None where there was none."""

    met: float | None
    missed: float | None


def bracket(capacity: float) -> Generator[float, bool, Bracket]:
    """Yield rates, be sent whether each met the bound, and return the bracket. `capacity`: answers a second."""
    met: float | None = None
    missed: float | None = None
    rate = _FIRST * capacity
    while True:
        if (yield rounded(rate)):
            met = rate
        else:
            missed = rate
        if met is None:
            rate /= _STEP
        elif missed is None:
            rate *= _STEP
        elif missed <= _CLOSE * met:
            return Bracket(met, missed)
        else:
            rate = math.sqrt(met * missed)
        if not _LEAST * capacity <= rate <= _MOST * capacity:
            return Bracket(met, missed)


def crossed(readings: Sequence[Reading], level: float = 0.95) -> Crossing | None:
    """Return the rate at which as many queries are late as are allowed, with its interval; None where it is not known.

    Only rates near the crossing count: the line is one there.
    """
    near = [r for r in _near(readings) if r.of > 0.0 and r.late <= _OVERLOADED * r.of]
    found = crossing([Count(*reading) for reading in near], ALLOWED, level)
    rates = [r.rate for r in near]
    if found is None or not min(rates) / _NEAR <= found.x <= max(rates) * _NEAR:
        return None
    return found if found.low is None or found.low > 0.0 else Crossing(found.x, None, None)


def _near(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings about the place where the bound is passed."""
    met = max((r.rate for r in readings if r.met), default=None)
    missed = min((r.rate for r in readings if not r.met), default=None)
    ends = [rate for rate in (met, missed) if rate is not None]
    low, high = min(ends, default=0.0) / _NEAR, max(ends, default=0.0) * _NEAR
    return [r for r in readings if low <= r.rate <= high]


def middle_of(found: Bracket) -> float | None:
    """Return the rate about which the rounds begin; None where no rate met the bound."""
    if found.met is None:
        return None
    return math.sqrt(found.met * found.missed) if found.missed is not None else found.met


def rates_about(middle: float) -> tuple[float, ...]:
    """Return the rates of a round."""
    return tuple(rounded(middle * share) for share in SPREAD)


def moved(middle: float, readings: Sequence[Reading]) -> float:
    """Return about which rate the next round is: where the rounds so far cross, if that is elsewhere.

    Where they do not cross: lower if the last round missed the bound at all its rates, higher if it met it at all.
    """
    at = crossed(readings)
    if at is not None:
        away = abs(at.x / middle - 1.0) > _MOVED
        return min(max(at.x, middle / _STEP), middle * _STEP) if away else middle
    last = [reading.met for reading in readings[-len(SPREAD) :]]
    return middle * _SHIFT if last and all(last) else middle / _SHIFT if last and not any(last) else middle


def rounded(rate: float) -> float:
    """Return a rate to three digits: what is shown is what was measured, and close rates are one case."""
    return float(f"{rate:.3g}")
