"""Means and slopes of autocorrelated values, with their standard errors; the relative error of a mean step time."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from functools import cache
from statistics import fmean, median
from typing import NamedTuple

from torchstone.core.stats.student import two_sided

FEWEST_STEPS = 6
FEWER_BATCHES, MORE_BATCHES = 10, 20
_LONG = 1000  # from here on, 20 batches are each long enough to be nearly independent of one another


def relative_half_width(steps: Sequence[float], level: float = 0.95) -> float | None:
    """Return the half-width of the interval of the mean step, relative to that mean; None under 6 steps.

    `steps`: one time a step in the order taken, any unit. Method of non-overlapping batch means (Law & Kelton,
    Simulation Modeling and Analysis, 3rd ed. 2000, §9.5.3): 10 to 20 batches, as Schmeiser (Operations Research 30(3),
    1982) found that more gain nothing, t-interval over their means. What correlation is left between neighbouring
    batches widens it by (1 + r)/(1 - r), the factor of a first-order autoregression. O(n). It tells when to stop, and
    says nothing of other processes.
    """
    if len(steps) < FEWEST_STEPS:
        return None
    mean = fmean(steps)
    if not mean > 0.0:
        return None
    batches, variance = _variance_of_mean(steps)
    return two_sided(level, batches - 1) * math.sqrt(variance) / mean


def relative_error(steps: Sequence[float]) -> float | None:
    """Return the standard error of the mean step, relative to it, by the method of `relative_half_width`."""
    if len(steps) < FEWEST_STEPS or not (mean := fmean(steps)) > 0.0:
        return None
    return math.sqrt(_variance_of_mean(steps)[1]) / mean


def _variance_of_mean(steps: Sequence[float]) -> tuple[int, float]:
    """Return how many batches were formed and the variance of the mean of all steps."""
    n = len(steps)
    batches = min(n, MORE_BATCHES if n >= _LONG else FEWER_BATCHES)
    edges = [i * n // batches for i in range(batches + 1)]
    means = [fmean(steps[a:b]) for a, b in itertools.pairwise(edges)]
    centre = fmean(means)
    off = [m - centre for m in means]
    squares = math.fsum(o * o for o in off)
    if squares <= 0.0:
        return batches, 0.0
    neighbours = math.fsum(a * b for a, b in itertools.pairwise(off)) / squares
    # the estimate of r is low by about (1 + 3r)/k (Kendall 1954); beyond 0.8 the factor would be all estimation error
    r = min(0.8, max(0.0, neighbours + 1.0 / batches))
    return batches, squares / (batches - 1) / batches * (1.0 + r) / (1.0 - r)


FEWEST = 6  # values: with fewer their correlation is not estimated
FEWEST_OF_A_LINE = 8
CYCLE = 4  # a resident feed repeats 4 batches: blocks of whole cycles do not show them
_BLOCKS = 20
_MOST_CORRELATION = 0.9  # beyond it the estimate is all error


class Coefficient(NamedTuple):
    """A mean or a slope, its standard error and the degrees of freedom of that."""

    value: float
    error: float
    df: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the two-sided interval, by Student's t. Raises ValueError for a level outside (0, 1)."""
        half = two_sided(level, self.df) * self.error
        return self.value - half, self.value + half


def mean(values: Sequence[float]) -> Coefficient | None:
    """Return the mean of evenly spaced values, in their unit; None under 6.

    A trend is no noise: residuals are those of the line that fits best. n of them count as n·(1-r)/(1+r), in the error
    and in the degrees of freedom, r being the correlation of neighbours (Santer et al., Journal of Geophysical Research
    105(D6), 2000; simulated in tests/statistics). r is corrected for its bias, -(p+(p+2)r)/n after fitting p parameters
    (Kendall, Biometrika 41, 1954; Orcutt & Winokur, Econometrica 37, 1969), and never counted as negative.
    """
    n = len(values)
    if n < FEWEST:
        return None
    parts, error, df = _fit_polynomial(values, 1)
    return Coefficient(parts[0] / math.sqrt(n), error / math.sqrt(n), df)


def slope(values: Sequence[float]) -> Coefficient | None:
    """Return the least-squares slope of evenly spaced values, a place; None under 8. Its error is as that of `mean`.

    The line sums a curve up, and how the curve bends is no noise: residuals are those of the cubic that fits best.
    """
    n = len(values)
    if n < FEWEST_OF_A_LINE:
        return None
    parts, error, df = _fit_polynomial(values, 3)
    width = math.sqrt(n * (n * n - 1) / 12.0)  # from the squared distances of the places from their middle
    return Coefficient(parts[1] / width, error / width, df)


def _fit_polynomial(values: Sequence[float], degree: int) -> tuple[list[float], float, float]:
    """Return the parts of the polynomials in the values, the standard error of each, and its degrees of freedom."""
    n, basis = len(values), _polynomials(len(values), degree)
    parts = [math.fsum(p * v for p, v in zip(each, values, strict=True)) for each in basis]
    off = [
        v - math.fsum(part * each[place] for part, each in zip(parts, basis, strict=True))
        for place, v in enumerate(values)
    ]
    df = _effective(off, len(basis)) - len(basis)
    rounding = sys.float_info.epsilon * max(map(abs, values)) * n  # of values that stay, or lie on a line
    return parts, math.sqrt(math.fsum(o * o for o in off) / df) + rounding, df


@cache
def _polynomials(n: int, most: int) -> list[list[float]]:
    """Return orthonormal polynomials of degree 0 to `most` at n even places, by Gram and Schmidt."""
    basis: list[list[float]] = []
    for degree in range(most + 1):
        values = [(2.0 * place / (n - 1) - 1.0) ** degree for place in range(n)]
        for each in basis:
            part = math.fsum(p * v for p, v in zip(each, values, strict=True))
            values = [v - part * p for p, v in zip(each, values, strict=True)]
        length = math.sqrt(math.fsum(v * v for v in values))
        basis.append([v / length for v in values])
    return basis


def _effective(off: Sequence[float], parameters: int) -> float:
    """Return how many independent residuals these are worth, at least one more than was fitted."""
    n, squares = len(off), math.fsum(o * o for o in off)
    if squares <= 0.0:
        return float(n)
    neighbours = math.fsum(a * b for a, b in itertools.pairwise(off)) / squares
    correlation = (n * neighbours + parameters) / (n - 2.0 - parameters)
    r = min(_MOST_CORRELATION, max(0.0, correlation))
    return max(parameters + 1.0, n * (1.0 - r) / (1.0 + r))


def block_medians(values: Sequence[float]) -> tuple[list[float], int]:
    """Return the medians of 20 to 39 blocks of consecutive values (fewer of fewer values), and the size of a block.

    A median is not moved by a spike. Sizes from 4 on are whole cycles; what is left over is left out at the beginning.
    """
    n = len(values)
    size = max(1, n // _BLOCKS)
    if size >= CYCLE:
        size -= size % CYCLE
    first = n % size
    return [median(values[i : i + size]) for i in range(first, n, size)], size


def paired_means(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Return the differences a - b of the means of at most 20 blocks; none where a block would be under two values.

    Both cover the same work in order, in their own number of values.
    """
    count = min(_BLOCKS, len(a) // 2, len(b) // 2)
    if count < FEWEST:
        return []
    return [x - y for x, y in zip(_block_means(a, count), _block_means(b, count), strict=True)]


def _block_means(values: Sequence[float], count: int) -> list[float]:
    edges = [i * len(values) // count for i in range(count + 1)]
    return [fmean(values[i:j]) for i, j in itertools.pairwise(edges)]
