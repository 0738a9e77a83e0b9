"""Cases of one run compared round by round, so that what slows a whole round down drops out of their ratio.

In each round every case is measured once, within seconds or minutes of the others (Kalibera & Jones, Rigorous
benchmarking in reasonable time, ISMM 2013: interleaved, paired). The logarithm of the ratio in each round is one
value; their spread is moderated by that of all cases about the effects of case and round (core/stats/moderated.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torchstone.core.stats.moderated import Prior, Spread, half_width, of_pooled, spread_of

_SWEEPS = 20  # of case and round means in turn: the residuals stand still long before
_LEAST_CHANGE = 1e-12

Rounds = Mapping[int, float]  # round → logarithm of a figure of one case


class Contrast(NamedTuple):
    """The mean logarithm of the ratio of two cases over their common rounds, and half of its interval."""

    log: float
    half: float
    rounds: int


def contrast(one: Rounds, other: Rounds, among: Sequence[Rounds] = (), level: float = 0.95) -> Contrast | None:
    """Return how one case compares with another by rounds; None where they have fewer than two in common.

    `among`: all cases of the run that the two belong to; of three and more, their residual spread moderates that of
    the two. Raises ValueError where the level is outside (0, 1).
    """
    return moderated(one, other, prior_of(among), level)


def moderated(one: Rounds, other: Rounds, prior: Prior | None, level: float = 0.95) -> Contrast | None:
    """Return the same from what the cases of the run say of the spread (`prior_of`): one for all its pairs."""
    common = sorted(one.keys() & other.keys())
    own = spread_of([one[number] - other[number] for number in common])
    if own is None:
        return None
    centre = math.fsum(one[number] - other[number] for number in common) / len(common)
    return Contrast(centre, half_width(own, len(common), prior, level), len(common))


def prior_of(among: Sequence[Rounds]) -> Prior | None:
    """Return what the residual spread of three and more cases says of the ratio of two; None where there is none."""
    several = [case for case in among if len(case) > 1]
    if len(several) < 3:
        return None
    left = residual(several)
    if left is None:
        return None
    return of_pooled(Spread(2.0 * left.variance, left.df))  # a ratio has the variance of both its cases


def residual(cases: Sequence[Rounds]) -> Spread | None:
    """Return the spread of one trial about the effects of its case and its round; None where none is left.

    Two-way layout without interaction, cells may be missing: case means and round means taken out in turn (Yates 1933)
    until nothing moves.
    """
    left = [dict(case) for case in cases]
    rounds = sorted({number for case in left for number in case})
    for _ in range(_SWEEPS):
        if max(_centre_cases(left), _centre_rounds(left, rounds)) < _LEAST_CHANGE:
            break
    cells = sum(len(case) for case in left)
    df = cells - len(left) - len(rounds) + 1
    if df <= 0:
        return None
    return Spread(math.fsum(value * value for case in left for value in case.values()) / df, df)


def _centre_cases(left: Sequence[dict[int, float]]) -> float:
    moved = 0.0
    for case in left:
        mean = math.fsum(case.values()) / len(case)
        moved = max(moved, abs(mean))
        for number in case:
            case[number] -= mean
    return moved


def _centre_rounds(left: Sequence[dict[int, float]], rounds: Sequence[int]) -> float:
    moved = 0.0
    for number in rounds:
        having = [case for case in left if number in case]
        mean = math.fsum(case[number] for case in having) / len(having)
        moved = max(moved, abs(mean))
        for case in having:
            case[number] -= mean
    return moved
