"""Ratios of two figures: undone from their intervals, and covering what they promise."""

import math
import random
from statistics import fmean, stdev

import pytest

from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.ratio import LogMean, log_mean, pooled, ratio


def measured(dice, true, deviation, trials):
    found = over_trials([true * dice.lognormvariate(0.0, deviation) for _ in range(trials)])
    return log_mean(found.value, found.low, found.high, trials)


def test_what_stood_behind_an_interval_comes_back():
    values = [10.0, 11.0, 9.5, 10.4]
    found = over_trials(values)
    back = log_mean(found.value, found.low, found.high, 4)
    assert back is not None
    assert back.log == pytest.approx(fmean(map(math.log, values)))
    assert back.deviation == pytest.approx(stdev(map(math.log, values)))


@pytest.mark.parametrize("ends", [(None, None, 3), (1.0, 3.0, 1), (0.0, 3.0, 3), (2.5, 3.0, 3)])
def test_no_interval_no_mean(ends):
    low, high, trials = ends
    assert log_mean(2.0, low, high, trials) is None


def test_the_interval_of_a_ratio_holds_the_true_one_95_times_of_100():
    dice = random.Random(5)
    held = 0
    for _ in range(1500):
        low, high = ratio(measured(dice, 3.0, 0.02, 3), measured(dice, 2.0, 0.06, 5))
        held += low <= 1.5 <= high
    assert 0.93 <= held / 1500 <= 0.97


def test_two_without_any_spread_have_an_exact_ratio():
    assert ratio(LogMean(math.log(3.0), 0.0, 3), LogMean(math.log(2.0), 0.0, 3)) == pytest.approx((1.5, 1.5))


def test_spread_is_pooled_by_degrees_of_freedom():
    deviation, df = pooled([LogMean(0.0, 0.1, 2), LogMean(1.0, 0.2, 4)])
    assert df == 4
    assert deviation == pytest.approx(math.sqrt((0.1**2 + 3 * 0.2**2) / 4))
    with pytest.raises(ValueError, match="no spread"):
        pooled([])
