"""How often a case of a run is called faster than an equal one: asked for, at most 5 % of runs."""

import random

import pytest

from torchstone.core.stats.best_of_many import pair_level
from torchstone.core.stats.comparing import by_rounds, prior_of


def one_run(cases, rounds, dice, apart):
    """Rounds of equal cases on a machine that drifts; each case with a spread of its own."""
    drift = [dice.gauss(0.0, 0.05) for _ in range(rounds)]
    own = [0.03 * 2.0 ** dice.gauss(0.0, apart) for _ in range(cases)]
    return [{number: drift[number] + dice.gauss(0.0, own[case]) for number in range(rounds)} for case in range(cases)]


def says_faster(run):
    means = [sum(case.values()) / len(case) for case in run]
    top = max(range(len(run)), key=means.__getitem__)
    level = pair_level(len(run))
    prior = prior_of(run)
    found = [by_rounds(run[top], other, prior) for place, other in enumerate(run) if place != top]
    return any(c is not None and c.interval(level)[0] > 0.0 for c in found)


@pytest.mark.parametrize("cases", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("rounds", [3, 5, 10])
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_equal_cases_are_rarely_called_faster(cases, rounds, apart):
    dice, runs = random.Random(cases * 100 + rounds), 600 if cases < 16 else 250
    wrong = sum(says_faster(one_run(cases, rounds, dice, apart)) for _ in range(runs)) / runs
    assert wrong <= 0.05 + 2.6 * (0.05 * 0.95 / runs) ** 0.5, "5 %, and what chance allows in so many runs"
