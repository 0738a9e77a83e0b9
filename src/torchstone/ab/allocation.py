"""How to spend time: on more turns of a pair, or on more pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from torchstone.ab.pair import Pair

FEWEST_COUPLES, MOST_COUPLES = 8, 128
_FIRST_TURNS_S = 1.0  # of a pair of which nothing is known yet


def first_couples(step_s: float) -> int:
    """Return the couples of turns of the first pairs, from the time of a step."""
    return _within(_FIRST_TURNS_S / max(2.0 * step_s, 1e-6))


def couples_for(pairs: Sequence[Pair], start_s: float, couple_s: float) -> int:
    """Return the couples that make a contest sharpest for its time, from the pairs so far.

    A pair costs `start_s` and `couple_s` for each couple of turns. Its value varies by what differs between pairs and
    by what differs between couples, over their number: the best number is the root of the ratio of costs times the
    ratio of variances (Kalibera & Jones, Rigorous benchmarking in reasonable time, ISMM 2013, §5).
    """
    sound = [(pair.logs, location) for pair in pairs if len(pair.logs) >= 4 and (location := pair.location) is not None]
    if len(sound) < 3 or couple_s <= 0.0:
        return first_couples(couple_s / 2.0)
    within = fmean(location.error**2 * len(logs) for logs, location in sound)
    seen = variance([location.value for _, location in sound])
    between = max(seen - fmean(location.error**2 for _, location in sound), 0.02 * within)
    return _within(math.sqrt(max(start_s, 0.0) / couple_s * within / between))


def _within(couples: float) -> int:
    return max(FEWEST_COUPLES, min(MOST_COUPLES, 2 * round(couples / 2.0)))
