"""Cases of one run compared round by round, so that what slows a whole round down drops out of their ratio.

In each round every case is measured once, within seconds or minutes of the others (Kalibera & Jones, Rigorous
benchmarking in reasonable time, ISMM 2013: interleaved, paired). The logarithm of the ratio in each round is one
value; their spread is moderated by that of all cases about the effects of case and round (core/stats/moderated.py).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from torchstone.core.stats.comparing import UNKNOWN, Difference, Templates, paired
from torchstone.core.stats.moderated import Prior, Spread, of_pooled
from torchstone.core.stats.nested import ASSUMED_SPREAD

_SWEEPS = 20  # of case and round means in turn: the residuals stand still long before
_LEAST_CHANGE = 1e-12

Rounds = Mapping[int, float]  # round → logarithm of a figure of one case


def in_turn(
    one: Rounds,
    other: Rounds,
    prior: Prior | None = None,
    templates: Mapping[int, Hashable] | None = None,
    assumed: float = ASSUMED_SPREAD,
) -> Difference | None:
    """Return one case less another of its run, by rounds; None where they have fewer than two in common.

    `prior`: what the cases of the run say of the spread (`prior_of`): one for all its pairs. `templates`: of which
    template the trials of a round were forked, where that is known of all, and the spread `assumed` between templates.
    """
    common = sorted(one.keys() & other.keys())
    if len(common) < 2:
        return None
    known = [templates[number] for number in common if number in templates] if templates else []
    shared = Templates(known, assumed) if len(known) == len(common) else UNKNOWN
    return paired([other[number] for number in common], [one[number] for number in common], shared, prior)


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
