"""Sen's slope and the Mann-Kendall score, against values worked out by hand and by scipy 1.14."""

import random

import pytest

from torchstone.core.stats.trend import rising, sen_slope


def test_a_line_has_its_slope_whatever_a_few_values_are():
    at = list(range(20))
    values = [3.0 * x + 5.0 for x in at]
    assert sen_slope(at, values) == 3.0
    for spoilt in (2, 9, 17):
        values[spoilt] = 1e9
    assert sen_slope(at, values) == pytest.approx(3.0)


def test_no_slope_without_two_places():
    assert sen_slope([], []) is None
    assert sen_slope([1.0, 1.0], [2.0, 3.0]) is None


def test_the_score_counts_pairs():
    assert rising([1.0, 2.0, 3.0, 4.0]) == pytest.approx((6 - 1) / (4 * 3 * 13 / 18) ** 0.5)
    assert rising([4.0, 3.0, 2.0, 1.0]) == -rising([1.0, 2.0, 3.0, 4.0])
    assert rising([2.0] * 9) == 0.0
    assert rising([1.0, 1.0, 2.0]) == pytest.approx((2 - 1) / ((3 * 2 * 11 - 2 * 1 * 9) / 18) ** 0.5)


def test_without_a_trend_it_is_near_a_standard_normal():
    dice = random.Random(0)
    scores = [rising([dice.random() for _ in range(12)]) for _ in range(4000)]
    assert sum(score > 1.645 for score in scores) / 4000 == pytest.approx(0.05, abs=0.015)
