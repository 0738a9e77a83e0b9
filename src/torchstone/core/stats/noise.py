"""How well the mean of a trial's steps is known, allowing for steps that resemble their neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import fmean

from torchstone.core.stats.student import two_sided

FEWEST = 6
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
    if len(steps) < FEWEST:
        return None
    mean = fmean(steps)
    if not mean > 0.0:
        return None
    batches, variance = _variance_of_mean(steps)
    return two_sided(level, batches - 1) * math.sqrt(variance) / mean


def relative_error(steps: Sequence[float]) -> float | None:
    """Return the standard error of the mean step, relative to it, by the method of `relative_half_width`."""
    if len(steps) < FEWEST or not (mean := fmean(steps)) > 0.0:
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
