"""Where a share that grows with a setting reaches a given value: log-linear regression with Fieller's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torchstone.core.stats.student import two_sided

_ITERATIONS = 50
_CONVERGED = 1e-10
_MOST = 30.0  # of the logarithm of a share, either way: beyond it a count tells nothing


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
    fitted = _fitted(known) if len({count.x for count in known}) > 1 and any(c.counted for c in known) else None
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


class _Line(NamedTuple):
    """ln share = intercept + slope·(x - middle); the (co)variances are to be multiplied by the dispersion."""

    middle: float
    intercept: float
    slope: float
    var_intercept: float
    var_slope: float
    covariance: float
    dispersion: float


def _fitted(counts: Sequence[Count]) -> _Line | None:
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
    return _Line(
        middle, a, b / spread, i_bb / whole, i_aa / whole / spread**2, -i_ab / whole / spread, dispersion
    )  # fmt: skip


def _bounded(logarithm: float) -> float:
    return max(-_MOST, min(_MOST, logarithm))
