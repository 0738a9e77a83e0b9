"""What one more reading is expected to improve the choice between many."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ROOT_2PI = math.sqrt(2.0 * math.pi)
_ROOT_2 = math.sqrt(2.0)
_PARALLEL = 1e-100  # slopes no further apart than that meet nowhere that a float can tell


def expected_gain(means: Sequence[float], slopes: Sequence[float]) -> float:
    """Return E[max_i (means_i + slopes_i Z)] - max_i means_i for a standard normal Z: how much the best will grow.

    `means` are the present posterior means of the alternatives, `slopes` how far each moves with the reading:
    covariance with it ÷ its standard deviation, noise included. Frazier, Powell & Dayanik, The knowledge-gradient
    policy for correlated normal beliefs, INFORMS J. Computing 21(4), 2009, algorithm 1. With one alternative that can
    be read, it is the expected improvement of Jones, Schonlau & Welch 1998 against the best of the others.
    """
    lines: list[tuple[float, float]] = []  # slope, mean: rising slopes, the highest mean of each slope
    for slope, mean in sorted(zip(slopes, means, strict=True)):
        if lines and slope - lines[-1][0] <= _PARALLEL:
            lines[-1] = (lines[-1][0], max(mean, lines[-1][1]))
        else:
            lines.append((slope, mean))
    hull = [lines[0]]  # the upper envelope over Z from -∞ to ∞
    starts = [-math.inf]
    for slope, mean in lines[1:]:
        while True:
            last_slope, last_mean = hull[-1]
            begins = (last_mean - mean) / (slope - last_slope)
            if begins > starts[-1]:
                break
            hull.pop()
            starts.pop()
        hull.append((slope, mean))
        starts.append(begins)
    gains = (
        (after[0] - before[0]) * _surplus(-abs(begins))
        for before, after, begins in zip(hull, hull[1:], starts[1:], strict=False)
    )
    return sum(gains)


def _surplus(z: float) -> float:
    """Return E[max(Z + z, 0)]."""
    return math.exp(-0.5 * z * z) / _ROOT_2PI + z * 0.5 * math.erfc(-z / _ROOT_2)
