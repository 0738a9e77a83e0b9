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

from torchstone.core.stats.student import two_sided

_ITERATIONS = 50
_CONVERGED = 1e-10
_MOST_LOG = 30.0  # of the logarithm of a share, either way: beyond it a count tells nothing


class Count(NamedTuple):
    """How many of `of` were counted at a value `x` of the setting."""

    x: float
    counted: float
    of: float


class Crossing(NamedTuple):
    """The x at which the share is the one asked for, and the ends of its interval; None where it has none."""

    x: float
    low: float | None
    high: float | None


def crossing(counts: Sequence[Count], share: float, level: float = 0.95) -> Crossing | None:
    """Return where ln E[counted / of] = a + b·x reaches ln(share); None where the counts show no growth.

    Fitted by iteratively reweighted least squares, with counts that vary φ times as much as Poisson's, φ from Pearson's
    chi-squared and at least 1 (quasi-likelihood: McCullagh & Nelder, Generalized Linear Models, 2nd ed. 1989, §6.2 and
    §9.2): what is counted comes in clusters. The interval is the set of x whose share does not differ significantly
    from the one asked for (Fieller, J. R. Stat. Soc. B 16(2), 1954). It has no ends with fewer than three counts, or
    where the growth is not significant at `level`. Raises ValueError where `share` is outside (0, 1).
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share {share!r} is not between 0 and 1")
    known = [count for count in counts if count.of > 0.0]
    fitted = _fit_line(known) if len({count.x for count in known}) > 1 and any(c.counted for c in known) else None
    if fitted is None or fitted.slope <= 0.0:
        return None
    at = fitted.middle + (math.log(share) - fitted.intercept) / fitted.slope
    if len(known) < 3:
        return Crossing(at, None, None)
    scale = fitted.dispersion * two_sided(level, len(known) - 2) ** 2
    # The d = x - middle for which (a + b·d - ln share)² <= scale·(var a + 2·cov·d + var b·d²): what lies between the
    # roots of a parabola.
    lack = fitted.intercept - math.log(share)
    square = fitted.slope**2 - scale * fitted.var_slope
    linear = fitted.slope * lack - scale * fitted.covariance
    rest = lack**2 - scale * fitted.var_intercept
    root = linear**2 - square * rest
    if square <= 0.0 or root < 0.0:
        return Crossing(at, None, None)
    low, high = (fitted.middle + (-linear + sign * math.sqrt(root)) / square for sign in (-1.0, 1.0))
    return Crossing(at, low, high)


class _LogLine(NamedTuple):
    """ln share = intercept + slope·(x - middle); the (co)variances are to be multiplied by the dispersion."""

    middle: float
    intercept: float
    slope: float
    var_intercept: float
    var_slope: float
    covariance: float
    dispersion: float


def _fit_line(counts: Sequence[Count]) -> _LogLine | None:
    """Fit the line; None where it does not converge: counts that are zero at all x but the largest, say."""
    middle = math.fsum(c.x for c in counts) / len(counts)
    spread = max(abs(c.x - middle) for c in counts)
    places = [(c.x - middle) / spread for c in counts]
    a, b = math.log(math.fsum(c.counted for c in counts) / math.fsum(c.of for c in counts)), 0.0
    for _ in range(_ITERATIONS):
        means = [c.of * math.exp(_bounded(a + b * d)) for c, d in zip(counts, places, strict=True)]
        # Newton's step of the log-likelihood: solve the 2×2 information matrix against the score.
        i_aa, i_ab = math.fsum(means), math.fsum(m * d for m, d in zip(means, places, strict=True))
        i_bb = math.fsum(m * d * d for m, d in zip(means, places, strict=True))
        s_a = math.fsum(c.counted - m for c, m in zip(counts, means, strict=True))
        s_b = math.fsum((c.counted - m) * d for c, m, d in zip(counts, means, places, strict=True))
        whole = i_aa * i_bb - i_ab**2
        if whole <= 0.0:
            return None
        step_a, step_b = (i_bb * s_a - i_ab * s_b) / whole, (i_aa * s_b - i_ab * s_a) / whole
        a, b = a + max(-2.0, min(2.0, step_a)), b + max(-2.0, min(2.0, step_b))
        if max(abs(step_a), abs(step_b)) < _CONVERGED:
            break
    else:
        return None
    pearson = math.fsum((c.counted - m) ** 2 / m for c, m in zip(counts, means, strict=True))
    dispersion = max(1.0, pearson / max(1, len(counts) - 2))
    return _LogLine(middle, a, b / spread, i_bb / whole, i_aa / whole / spread**2, -i_ab / whole / spread, dispersion)


def _bounded(logarithm: float) -> float:
    return max(-_MOST_LOG, min(_MOST_LOG, logarithm))


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


class LoadReading(NamedTuple):
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
        if (yield rounded_rate(rate)):
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


def crossed(readings: Sequence[LoadReading], level: float = 0.95) -> Crossing | None:
    """Return the rate at which as many queries are late as are allowed, with its interval; None where it is not known.

    Only rates near the crossing count: the line is one there.
    """
    near = [r for r in _near(readings) if r.of > 0.0 and r.late <= _OVERLOADED * r.of]
    found = crossing([Count(*reading) for reading in near], ALLOWED, level)
    rates = [r.rate for r in near]
    if found is None or not min(rates) / _NEAR <= found.x <= max(rates) * _NEAR:
        return None
    return found if found.low is None or found.low > 0.0 else Crossing(found.x, None, None)


def _near(readings: Sequence[LoadReading]) -> list[LoadReading]:
    """Return the readings about the place where the bound is passed."""
    met = max((r.rate for r in readings if r.met), default=None)
    missed = min((r.rate for r in readings if not r.met), default=None)
    ends = [rate for rate in (met, missed) if rate is not None]
    low, high = min(ends, default=0.0) / _NEAR, max(ends, default=0.0) * _NEAR
    return [r for r in readings if low <= r.rate <= high]


def middle_of(bracket: Bracket) -> float | None:
    """Return the rate about which the rounds begin; None where no rate met the bound."""
    if bracket.met is None:
        return None
    return math.sqrt(bracket.met * bracket.missed) if bracket.missed is not None else bracket.met


def rates_about(middle: float) -> tuple[float, ...]:
    """Return the rates of a round."""
    return tuple(rounded_rate(middle * share) for share in SPREAD)


def next_rate(middle: float, readings: Sequence[LoadReading]) -> float:
    """Return about which rate the next round is: where the rounds so far cross, if that is elsewhere.

    Where they do not cross: lower if the last round missed the bound at all its rates, higher if it met it at all.
    """
    at = crossed(readings)
    if at is not None:
        away = abs(at.x / middle - 1.0) > _MOVED
        return min(max(at.x, middle / _STEP), middle * _STEP) if away else middle
    last = [reading.met for reading in readings[-len(SPREAD) :]]
    return middle * _SHIFT if last and all(last) else middle / _SHIFT if last and not any(last) else middle


def rounded_rate(rate: float) -> float:
    """Return a rate to three digits: what is shown is what was measured, and close rates are one case."""
    return float(f"{rate:.3g}")
