"""The mean of grouped pair values: pairs of processes forked from the same template are correlated.

A pair value is the logarithm of a ratio. What two programs owe to the layout of a template (where its libraries and its
heap lie) is the same in all its pairs, so pairs alone cannot show it: only several templates can. Until there are
many, what is known of the spread between templates beforehand stands in for part of it (moderated variance: Smyth,
Stat. Appl. Genet. Mol. Biol. 3, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchstone.core.stats.random_effects import random_effects
from torchstone.core.stats.trimmed import Location

# The standard deviation between templates that is assumed before any were seen, and with the weight of how many
# (docs/measured.md, live comparisons: of programs that differ in layout alone).
ASSUMED_SPREAD = 0.005
ASSUMED_WEIGHT = 6.0

Pairs = Sequence[tuple[float, float]]  # value and standard error of each


def nested_mean(
    groups: Sequence[Pairs], assumed: float = ASSUMED_SPREAD, weight: float = ASSUMED_WEIGHT
) -> Location | None:
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
    between = (weight * assumed**2 + seen_df * _between(groups)) / (weight + seen_df)
    part, part_df = between * (1.0 / templates - 1.0 / pairs), weight + seen_df
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
