"""How often intervals of few trials hold, moderated by other cases or by earlier runs: asked for, 93 to 97 %."""

import math
import random

import pytest

from torchstone.core.stats.moderated import half_width, of_history, of_siblings, trial_spread

RUNS = 3000


def covered(trials, deviation, usual, dice):
    logs = [dice.gauss(0.0, deviation) for _ in range(trials)]
    spread = trial_spread(logs)
    assert spread is not None
    return abs(math.fsum(logs) / trials) <= half_width(spread, trials, of_history(usual))


def share(trials, deviation_of, usual=0.03, runs=RUNS):
    dice = random.Random(trials)
    return sum(covered(trials, deviation_of(dice), usual, dice) for _ in range(runs)) / runs


@pytest.mark.parametrize("trials", [2, 3, 5, 10])
@pytest.mark.parametrize("times", [1.0, 2.0, 3.0])
def test_with_history_that_is_right_or_too_small(trials, times):
    assert share(trials, lambda _: times * 0.03) >= 0.93


@pytest.mark.parametrize("trials", [5, 10])
def test_with_history_that_is_too_large_they_are_no_wider_than_need_be(trials):
    assert share(trials, lambda _: 0.03 / 2.0) <= 0.985


@pytest.mark.parametrize("trials", [2, 3, 5, 10])
def test_with_history_ten_times_too_small_students_t_takes_over(trials):
    assert share(trials, lambda _: 0.3) >= 0.92


@pytest.mark.parametrize("trials", [2, 3, 5, 10])
def test_over_hours_that_differ(trials):
    assert 0.93 <= share(trials, lambda dice: 0.03 * math.exp(dice.gauss(0.0, 0.5))) <= 0.99


def of_run(cases, trials, deviations, dice):
    """Return how many of the cases of a run have their true value in their interval."""
    logs = [[dice.gauss(0.0, deviations[case]) for _ in range(trials)] for case in range(cases)]
    spreads = [spread for one in logs if (spread := trial_spread(one)) is not None]
    hits = 0
    for place, one in enumerate(logs):
        prior = of_siblings([s for at, s in enumerate(spreads) if at != place])
        hits += abs(math.fsum(one) / trials) <= half_width(spreads[place], trials, prior)
    return hits


@pytest.mark.parametrize("cases", [2, 4, 8, 16])
@pytest.mark.parametrize("trials", [2, 3, 5, 10])
@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_cases_of_one_run_that_spread_alike_or_differently(cases, trials, apart):
    dice, runs = random.Random(cases * 100 + trials), 2400 // cases
    deviation = lambda: 0.03 * math.exp(dice.gauss(0.0, apart))
    hits = sum(of_run(cases, trials, [deviation() for _ in range(cases)], dice) for _ in range(runs))
    assert 0.93 <= hits / (runs * cases) <= (0.99 if trials == 2 else 0.98)


@pytest.mark.parametrize("trials", [3, 5])
def test_one_case_that_spreads_four_times_as_far_pays_some_of_it(trials):
    dice, hits = random.Random(trials), 0
    for _ in range(600):
        hits += of_run(5, trials, [0.12, 0.03, 0.03, 0.03, 0.03], dice)
    assert hits / 3000 >= 0.93, "all of them together"
