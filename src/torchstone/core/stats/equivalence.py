"""Equivalence of two losses within a margin, shown by a test of equivalence, not by a non-significant difference.

Two one-sided tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987; Lakens, Social
Psychological and Personality Science 8(4), 2017, from whom the three verdicts are).

The unit is a block of steps of two trainings that differ in one setting, and have seed and order of data in common:
losses are compared on the same batches. Steps are no units, since neighbours resemble each other, and what of this is
left between blocks is allowed for. Blocks of one training speak for that training: that another seed would say the
same takes trainings with other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from torchstone.core.stats.correlated import mean, paired_means

MARGIN = 0.01  # of the loss
ALPHA = 0.05  # how often what differs by the margin is called equivalent, and what is equal is called different


class Sameness(StrEnum):
    """What two one-sided tests and a test against 0 say together."""

    EQUIVALENT = "equivalent"  # the difference lies within the margin, whether it is 0 or not
    DIFFERENT = "different"  # it is not 0, and not shown to lie within the margin
    UNCLEAR = "unclear"


class Equivalence(NamedTuple):
    """The mean difference, the ends of its 90 % interval and the margin (units of the values); how many units."""

    difference: float
    low: float
    high: float
    margin: float
    verdict: Sameness
    units: int


def tost(differences: Sequence[float], margin: float, alpha: float = ALPHA) -> Equivalence | None:
    """Return whether the mean of paired differences (in order) lies within ±margin; None under 6 units."""
    known = mean(differences)
    if known is None:
        return None
    low, high = known.interval(1.0 - 2.0 * alpha)
    verdict = Sameness.UNCLEAR
    if -margin < low and high < margin:
        verdict = Sameness.EQUIVALENT
    else:
        wide_low, wide_high = known.interval(1.0 - alpha)
        if wide_low > 0.0 or wide_high < 0.0:
            verdict = Sameness.DIFFERENT
    return Equivalence(known.value, low, high, margin, verdict, len(differences))


def of_losses(losses: Sequence[float], reference: Sequence[float], share: float = MARGIN) -> Equivalence | None:
    """Return whether two trainings over the same items in the same order have the same loss, in its unit.

    Compared is the second half, where they have had time to part; the margin is `share` of the mean loss of the whole
    reference, so that what both have learned by heart, near 0, counts as the same. None where a half is under 12 steps,
    or a loss is not finite.
    """
    if not all(map(math.isfinite, (*losses, *reference))):
        return None
    halves = [one[len(one) // 2 :] for one in (losses, reference)]
    differences = paired_means(*halves)
    return tost(differences, share * abs(fmean(reference))) if differences else None
