"""How to spend time: on more turns of a pair, or on more pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from torchstone.ab.pair import Pair
from torchstone.ab.turns import within_bounds


def couples_for(pairs: Sequence[Pair], start_s: float, couple_s: float) -> int | None:
    """Return the couples that make a contest sharpest for its time, from the pairs so far; None of fewer than three.

    A pair costs `start_s` and `couple_s` for each couple of turns. Its value varies by what differs between pairs and
    by what differs between couples, over their number: the best number is the root of the ratio of costs times the
    ratio of variances (Kalibera & Jones, Rigorous benchmarking in reasonable time, ISMM 2013, §5).
    """
    sound = [(pair.logs, location) for pair in pairs if len(pair.logs) >= 4 and (location := pair.location) is not None]
    if len(sound) < 3 or couple_s <= 0.0:
        return None
    within = fmean(location.error**2 * len(logs) for logs, location in sound)
    seen = variance([location.value for _, location in sound])
    between = max(seen - fmean(location.error**2 for _, location in sound), 0.02 * within)
    return within_bounds(math.sqrt(max(start_s, 0.0) / couple_s * within / between))
