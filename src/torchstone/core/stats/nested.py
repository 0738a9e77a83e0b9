"""The mean of grouped pair values: pairs of processes forked from the same template are correlated.

A pair value is the logarithm of a ratio. What two programs owe to the layout of a template (where its libraries and its
heap lie) is the same in all its pairs, so pairs alone cannot show it: only several templates can. Until there are
many, what is known of the spread between templates beforehand stands in for part of it (moderated variance: Smyth,
Stat. Appl. Genet. Mol. Biol. 3, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torchstone.core.stats.student import t_quantile


class Location(NamedTuple):
    """A location in the values' own unit, its standard error, and the degrees of freedom behind that."""

    value: float
    error: float
    df: float


def trimmed_mean(values: Sequence[float], share: float = 0.2) -> float:
    """Return the mean of the values without the lowest and the highest `share` of them.

    Raises ValueError without a value, or where share is outside [0, 0.5).
    """
    ordered, cut = _ordered(values, share)
    kept = ordered[cut : len(ordered) - cut]
    return math.fsum(kept) / len(kept)


def trimmed(values: Sequence[float], share: float = 0.2) -> Location | None:
    """Return the trimmed mean with its standard error from the winsorized variance; None of fewer than 2 kept values.

    Tukey & McLaughlin, Sankhya A 25 (1963); Yuen, Biometrika 61 (1974): (n - 1) s_w^2 / (h (h - 1)), with h values
    kept, is the squared error of the trimmed mean, and h - 1 its degrees of freedom. Raises as `trimmed_mean`.
    """
    ordered, cut = _ordered(values, share)
    n = len(ordered)
    kept = n - 2 * cut
    if kept < 2:
        return None
    winsorized = [ordered[cut]] * cut + ordered[cut : n - cut] + [ordered[n - cut - 1]] * cut
    centre = math.fsum(winsorized) / n
    squares = math.fsum((value - centre) ** 2 for value in winsorized)
    error = math.sqrt(squares / (kept * (kept - 1)))
    return Location(trimmed_mean(ordered, share), error, kept - 1)


def _ordered(values: Sequence[float], share: float) -> tuple[list[float], int]:
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a trimmed mean needs finite values: {list(values)!r}")
    if not 0.0 <= share < 0.5:
        raise ValueError(f"share {share!r} is not in [0, 0.5)")
    return sorted(values), int(share * len(values))


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
    return Location(_weighted_mean(values, weights), math.sqrt(variance), max(1.0, min(n, worth) - 1.0))


def _jackknife(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the variance of the weighted mean by leaving out one value at a time, the other weights as they are."""
    n, total, centre = len(values), math.fsum(weights), _weighted_mean(values, weights)
    moves = (w * (v - centre) / max(total - w, _LEAST_SHARE * total) for w, v in zip(weights, values, strict=True))
    return (n - 1) / n * math.fsum(move * move for move in moves)


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def _scatter(values: Sequence[float], weights: Sequence[float]) -> float:
    centre = _weighted_mean(values, weights)
    return math.fsum(w * (v - centre) ** 2 for w, v in zip(weights, values, strict=True))


class Spending:
    """Gives each look its share of the false alarms allowed: `total` is spent in all, whatever the looks say.

    A look at `progress` (0 to 1 of the budget) may have spent total · progress² by then: little is left to the first
    looks, which only large differences need (Lan & DeMets, Biometrika 70, 1983; the power family: Kim & DeMets,
    Biometrika 74, 1987). What is new since the look before is the level of this one. By Boole's inequality the levels
    add up to the bound however the looks hang together; a boundary computed for independent increments would be
    tighter by a twentieth, and on a machine that drifts the increments are not independent.
    """

    def __init__(self, total: float) -> None:
        """Raises ValueError where total is outside (0, 1)."""
        if not 0.0 < total < 1.0:
            raise ValueError(f"false alarms {total!r} are not between 0 and 1")
        self._total = total
        self._spent = 0.0

    def level(self, progress: float) -> float:
        """Return the false alarms that a look at that progress may spend; 0 if none are left since the last."""
        due = self._total * min(max(progress, 0.0), 1.0) ** 2
        share, self._spent = max(0.0, due - self._spent), max(due, self._spent)
        return share


def location_half_width(location: Location, false_alarms: float) -> float:
    """Return half the two-sided interval of a location at the level of a look (Student 1908), in its unit."""
    return t_quantile(1.0 - false_alarms / 2.0, location.df) * location.error


# The standard deviation between templates that is assumed before any were seen, and with the weight of how many
# (docs/measurements.md, live comparisons: of programs that differ in layout alone).
ASSUMED_SPREAD = 0.005
ASSUMED_WEIGHT = 6.0

Pairs = Sequence[tuple[float, float]]  # value and standard error of each


def nested_mean(groups: Sequence[Pairs], assumed: float = ASSUMED_SPREAD) -> Location | None:
    """Return location, standard error and degrees of freedom of pair values in groups, one a template.

    The error has two parts: that of the weighted mean over all pairs, and the spread between groups over their number.
    Degrees of freedom by Satterthwaite (Biometrics Bulletin 2, 1946). None of fewer than 2 pairs.
    """
    groups = [group for group in groups if group]
    whole = _mean([pair for group in groups for pair in group])
    if whole is None:
        return None
    pairs, templates = sum(map(len, groups)), len(groups)
    seen_df = templates - 1
    between = (ASSUMED_WEIGHT * assumed**2 + seen_df * _between(groups)) / (ASSUMED_WEIGHT + seen_df)
    part, part_df = between * (1.0 / templates - 1.0 / pairs), ASSUMED_WEIGHT + seen_df
    variance = whole.error**2 + part
    if variance <= 0.0:
        return Location(whole.value, 0.0, whole.df)
    df = variance**2 / (whole.error**4 / whole.df + part**2 / part_df)
    return Location(whole.value, math.sqrt(variance), df)


def _between(groups: Sequence[Pairs]) -> float:
    """Estimate the variance between groups: what their means differ by beyond what their own pairs explain.

    One-way analysis of variance by moments (Searle, Casella & McCulloch, Variance Components, 1992, §3.6).
    """
    found = [location for group in groups if (location := _mean(group)) is not None]
    if len(found) < 2:
        return 0.0
    centre = math.fsum(location.value for location in found) / len(found)
    seen = math.fsum((location.value - centre) ** 2 for location in found) / (len(found) - 1)
    explained = math.fsum(location.error**2 for location in found) / len(found)
    return max(0.0, seen - explained)


def _mean(pairs: Pairs) -> Location | None:
    return random_effects([value for value, _ in pairs], [error for _, error in pairs])
