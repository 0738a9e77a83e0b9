"""The random-effects mean: values weighted by their own accuracy and by the variation between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchstone.core.stats.trimmed import Location

_LEAST_SHARE = 1e-6  # of the weight: so much all others have at least, or there is nothing to leave one out of
_LEAST_ERROR = 1e-9  # a value whose own error could not be seen is not infinitely sure


def random_effects(values: Sequence[float], errors: Sequence[float]) -> Location | None:
    """Return location, standard error and degrees of freedom of values with standard errors of their own.

    Each value weighs 1 / (its error² + the variance between values), which is estimated by moments (DerSimonian &
    Laird, Control. Clin. Trials 7, 1986). The standard error comes from how the values really scatter about their
    weighted mean (Hartung & Knapp, Stat. Med. 20, 2001), which takes the weights for right, or from the jackknife
    (Tukey 1958; Efron & Stein, Ann. Stat. 9, 1981), which does not: the larger. Errors seen in a few turns are
    guesses, and of six values the one that happens to look surest may carry the mean. Degrees of freedom: one less
    than the number of equal weights that would be worth as much (Kish, 1965). None of fewer than 2. Raises ValueError
    where the two sequences differ in length.
    """
    if len(values) != len(errors):
        raise ValueError(f"{len(values)} values, {len(errors)} errors")
    n = len(values)
    if n < 2:
        return None
    own = [max(error, _LEAST_ERROR) ** 2 for error in errors]
    fixed = [1.0 / variance for variance in own]
    total = math.fsum(fixed)
    scatter = _scatter(values, fixed)
    spread = max(0.0, (scatter - (n - 1)) / (total - math.fsum(w * w for w in fixed) / total))
    weights = [1.0 / (variance + spread) for variance in own]
    total = math.fsum(weights)
    variance = max(_scatter(values, weights) / ((n - 1) * total), _jackknife(values, weights))
    worth = total**2 / math.fsum(w * w for w in weights)
    return Location(_mean(values, weights), math.sqrt(variance), max(1.0, min(n, worth) - 1.0))


def _jackknife(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the variance of the weighted mean by leaving out one value at a time, the other weights as they are."""
    n, total, centre = len(values), math.fsum(weights), _mean(values, weights)
    moves = (w * (v - centre) / max(total - w, _LEAST_SHARE * total) for w, v in zip(weights, values, strict=True))
    return (n - 1) / n * math.fsum(move * move for move in moves)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def _scatter(values: Sequence[float], weights: Sequence[float]) -> float:
    centre = _mean(values, weights)
    return math.fsum(w * (v - centre) ** 2 for w, v in zip(weights, values, strict=True))
