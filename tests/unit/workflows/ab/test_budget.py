"""The division of time, by arithmetic."""

import pytest

from torchstone.workflows.ab.timetable import (
    FEWEST_PAIRS,
    MOST_COUPLES,
    Pace,
    PairSpread,
    allotted,
    early,
    fitting,
    later,
    templates_for,
    whole,
)

QUICK = Pace(warm_s=0.8, couple_s=0.05, end_s=0.2)
SLOW = Pace(warm_s=8.0, couple_s=3.6, end_s=0.4)


def test_what_fits_is_counted_in_whole_couples():
    assert fitting(QUICK, 60.0, 6) == 180
    assert QUICK.needed_s(6, 180) == pytest.approx(60.0)
    assert fitting(SLOW, 60.0, 6) < 1
    assert fitting(SLOW, 6 * SLOW.pair_s(1), 6) == 1


def test_the_time_left_is_divided_evenly_and_none_is_left_over():
    couples = allotted(QUICK, 30.0, 40, 1)
    pairs = int(30.0 / QUICK.pair_s(40))
    assert pairs * QUICK.pair_s(couples) <= 30.0 < pairs * QUICK.pair_s(couples + 2)
    assert allotted(QUICK, 30.0, 40, 12) <= 30, "twelve pairs at least"
    assert allotted(QUICK, 3.0, 10**6, 12) < 1
    assert allotted(Pace(0.1, 1e-6), 60.0, 1, 1) <= MOST_COUPLES


def test_first_pairs_are_short_enough_for_an_early_answer_and_fill_the_time_where_only_six_fit():
    couples = early(QUICK, 60.0, 53.0, 6)
    assert QUICK.needed_s(FEWEST_PAIRS, couples) <= 18.0
    steps_of_half_a_second = Pace(1.3, 1.0, 0.2)
    assert early(steps_of_half_a_second, 60.0, 52.0, 6) == fitting(steps_of_half_a_second, 52.0, 6)


def test_noisy_turns_want_more_of_them_and_lucky_processes_want_more_pairs():
    turns, processes = PairSpread(0.01, 1e-6), PairSpread(4e-4, 25e-4)
    assert turns.best(QUICK) > 40 > processes.best(QUICK)
    assert turns.best(QUICK) > turns.best(Pace(0.1, 0.05)), "a cheap start means more pairs"


@pytest.mark.parametrize("couples", [0.7, 0.9, 1.1, 1.4])
def test_the_best_number_is_the_cheapest(couples):
    spread = PairSpread(0.01, 1e-4)
    best = spread.best(QUICK)
    assert spread.cost(best, QUICK) < spread.cost(couples * best, QUICK)


def test_pairs_grow_until_enough_is_measured_but_not_at_any_price():
    spread = PairSpread(0.01, 2e-4)
    best, grown = spread.best(QUICK), later(QUICK, spread, 40.0, 32.0, 6)
    assert best < grown
    share = grown * QUICK.couple_s / QUICK.pair_s(grown)
    assert share >= 0.7
    assert spread.cost(grown, QUICK) <= 1.16**2 * spread.cost(best, QUICK)
    fortunate = PairSpread(1e-4, 25e-4)
    assert later(QUICK, fortunate, 40.0, 39.0, 6) < 40, "where processes differ, measured time is worth little"
    assert later(QUICK, spread, 40.0, 1.0, 6) == pytest.approx(best, abs=1.0), "enough is measured"


def test_without_a_spread_pairs_are_as_long_as_the_share_needs():
    couples = later(QUICK, None, 40.0, 32.0, 6)
    assert couples * QUICK.couple_s / QUICK.pair_s(couples) == pytest.approx(0.8, abs=0.02)


def test_templates_cost_a_small_share():
    assert templates_for(2.5, 60.0, 6) == 3
    assert templates_for(5.0, 60.0, 6) == 2
    assert templates_for(5.0, 12.0, 6) == 1
    assert templates_for(2.5, 600.0, 6) == 6


def test_few_couples_need_not_be_even():
    assert [whole(n) for n in (1, 3, 7, 9, 12)] == [1, 3, 7, 8, 12]
