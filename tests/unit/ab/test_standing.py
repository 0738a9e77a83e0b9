"""How a contest stands after so many pairs."""

import math

import pytest

from torchstone.ab.standing import FEWEST_PAIRS, Standing
from torchstone.terms.comparison import Judgement, judge


def standing(values, margin=0.02, templates=1):
    found = Standing(margin, 0.01)
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
    more = noisy.pairs_to_settle()
    assert more is not None
    assert more > 8


def test_few_pairs_say_nothing():
    few = standing(jitter(1.0)[: FEWEST_PAIRS - 1])
    assert not few.due()
    assert few.look(1.0) is None
    assert few.pairs_to_settle() is None


def test_looks_come_at_ever_larger_distances():
    found = standing(jitter(0.0, 0.02))
    assert found.due()
    found.look(0.5)
    assert not found.due()
    found.add(0.0, 0.001)
    found.add(0.0, 0.001)
    assert found.due()


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
