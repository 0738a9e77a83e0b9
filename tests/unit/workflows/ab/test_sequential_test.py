"""How an experiment stands after so many pairs."""

import math
import random
from statistics import fmean, stdev

import pytest

from torchstone.core.schema.comparison import Judgement, judge
from torchstone.core.stats.nested import ASSUMED_SPREAD
from torchstone.workflows.ab.sequential_test import MOST_TEMPLATES, SequentialTest
from torchstone.workflows.ab.timetable import FEWEST_PAIRS


def standing(values, margin=0.02, templates=1):
    found = SequentialTest(margin, 0.01)
    for _ in range(templates):
        found.new_template()
        for value in values:
            found.add(value, 0.001)
    return found


def jitter(centre, spread=0.0005):
    return [centre + spread * step for step in (-1, 1, -2, 2, 0, 1, -1, 0)]


def test_a_clear_difference_is_one_and_equal_code_is_the_same():
    slower = standing(jitter(math.log(1.05)), templates=3).look(1.0)
    assert slower is not None
    assert slower.verdict == Judgement.WORSE
    assert slower.low < 1.05 < slower.high
    same = standing(jitter(0.0), templates=4).look(1.0)
    assert same is not None
    assert same.verdict == Judgement.SAME
    assert same.templates == 4


def test_a_faster_b_is_better():
    found = standing(jitter(math.log(0.9)), templates=2).look(1.0)
    assert found is not None
    assert found.verdict == Judgement.BETTER


def test_noise_is_unclear_and_says_how_much_more_it_takes():
    noisy = standing([-0.05, 0.04, 0.06, -0.03, 0.05, 0.0, 0.03, -0.02])
    found = noisy.look(1.0)
    assert found is not None
    assert found.verdict == Judgement.UNCLEAR
    assert not found.settled
    assert noisy.pairs_to_settle() is not None


def test_so_many_further_pairs_settle_it_four_times_in_five():
    values = [-0.05, 0.04, 0.06, -0.03, 0.05, 0.0, 0.03, -0.02]
    noisy = standing(values)
    assert noisy.look(1.0) is not None
    more = noisy.pairs_to_settle()
    assert more is not None
    dice = random.Random(5)

    def settled(pairs):
        longer = SequentialTest(0.02, 0.01)
        for number in range(MOST_TEMPLATES):
            longer.new_template()
            chance = dice.gauss(0.0, ASSUMED_SPREAD)
            for _ in range(number, pairs, MOST_TEMPLATES):
                longer.add(dice.gauss(fmean(values) + chance, stdev(values)), 0.001)
        look = longer.look(1.0)
        return look is not None and look.settled

    assert 0.62 <= fmean(settled(len(values) + more) for _ in range(100)) <= 0.95
    assert fmean(settled(len(values) + more // 3) for _ in range(100)) <= 0.5


def test_what_templates_differ_by_is_a_floor_that_no_number_of_pairs_gets_below():
    strict = standing([-0.05, 0.05] * 4, margin=0.001)
    found = strict.look(1.0)
    assert found is not None
    assert found.verdict == Judgement.UNCLEAR
    assert strict.pairs_to_settle() is None
    alike = standing([-0.05, 0.05] * 4, margin=0.05)
    assert alike.look(1.0) is not None
    assert alike.pairs_to_settle() is not None, "a wider margin lies above the floor"


def test_few_pairs_say_nothing():
    few = standing(jitter(1.0)[: FEWEST_PAIRS - 1])
    assert not few.due(0.5)
    assert few.look(1.0) is None
    assert few.pairs_to_settle() is None


def test_looks_come_at_ever_larger_distances():
    found = standing(jitter(0.0, 0.02))
    assert found.due(0.5)
    found.look(0.5)
    assert not found.due(0.6)
    found.add(0.0, 0.001)
    found.add(0.0, 0.001)
    assert found.due(0.7)
    assert not found.due(0.8), "what it would spend is the last look's"


def test_a_look_without_a_new_pair_is_the_one_before():
    found = standing(jitter(0.0, 0.02))
    before = found.look(0.95)
    assert before is not None
    assert found.look(1.0) == before
    found.add(0.0, 0.001)
    assert found.look(1.0) != before


@pytest.mark.parametrize(
    ("low", "high", "margin", "higher", "verdict"),
    [
        (0.99, 1.01, 0.02, False, Judgement.SAME),
        (1.001, 1.015, 0.02, False, Judgement.SAME),
        (1.01, 1.05, 0.02, False, Judgement.WORSE),
        (1.01, 1.05, 0.02, True, Judgement.BETTER),
        (0.9, 0.97, 0.02, False, Judgement.BETTER),
        (0.97, 1.01, 0.02, False, Judgement.UNCLEAR),
        (0.999, 1.001, 0.0, False, Judgement.UNCLEAR),
    ],
)
def test_judging_an_interval(low, high, margin, higher, verdict):
    assert judge(low, high, margin, higher_is_better=higher) == verdict


def test_no_interval_of_a_ratio():
    with pytest.raises(ValueError, match="no interval"):
        judge(1.2, 1.1, 0.02, higher_is_better=True)


def test_pairs_of_so_few_turns_that_their_errors_are_unknown_weigh_alike():
    found = SequentialTest(0.02, 0.01)
    found.new_template()
    for value, error in zip(jitter(0.0, 0.01), [0.0, 1e-6, *[0.02] * 4, 0.0, 0.0], strict=True):
        found.add(value, error)
    look = found.look(1.0)
    assert look is not None
    assert look.value == pytest.approx(math.exp(fmean(jitter(0.0, 0.01))))


def test_a_pair_that_was_cut_short_is_left_out_where_enough_are_whole():
    found = standing(jitter(0.0))
    whole = found.look(0.5)
    found.add(0.5, 0.0)
    look = found.look(1.0)
    assert whole is not None
    assert look is not None
    assert (look.value, look.pairs) == (whole.value, 8)
