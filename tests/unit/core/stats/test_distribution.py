"""The curve of quantiles, and the interval of each. How often they hold is in tests/statistics."""

import math
from itertools import pairwise

import pytest

from torchstone.core.stats.distribution import half_width, of_one_trial, over_several
from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.quantile import quantile


def test_the_half_width_is_massart_s():
    assert half_width(100) == pytest.approx(math.sqrt(math.log(40.0) / 200.0))
    assert half_width(1000) == pytest.approx(0.04294694083467376)
    assert half_width(400, 0.99) < half_width(100, 0.99)


@pytest.mark.parametrize(("n", "level"), [(0, 0.95), (10, 0.0), (10, 1.0)])
def test_a_band_needs_values_and_a_level(n, level):
    with pytest.raises(ValueError, match="no band"):
        half_width(n, level)


def test_a_trial_alone_has_the_band_of_its_steps():
    values = [float(place) for place in range(100, 0, -1)]
    found = of_one_trial(values)
    assert [one.share for one in found] == pytest.approx([place / 100 for place in range(1, 101)])
    assert [one.value for one in found] == [float(place) for place in range(1, 101)]
    middle = found[49]
    assert (middle.low, middle.high) == (37.0, 64.0), "50 - 13.58 and 50 + 13.58, as ranks"
    assert found[0].low is None
    assert found[-1].high is None, "beyond the sample nothing is known"
    assert all(one.low is None or one.low <= one.value for one in found)
    assert all(one.high is None or one.high >= one.value for one in found)


def test_of_many_steps_as_many_ranks_as_asked_for_the_ends_among_them():
    found = of_one_trial([float(place) for place in range(10_000)], most=50)
    assert len(found) == 50
    assert (found[0].share, found[-1].share) == (1e-4, 1.0)
    assert (found[0].value, found[-1].value) == (0.0, 9999.0)


def test_several_trials_have_the_interval_over_trials_of_each_quantile():
    trials = [[1.0 * by, 2.0 * by, 3.0 * by, 4.0 * by] for by in (1.0, 1.1, 0.9)]
    found = over_several(trials)
    assert [one.share for one in found] == [0.125, 0.375, 0.625, 0.875]
    for one in found:
        expected = over_trials([quantile(values, one.share) for values in trials])
        assert (one.value, one.low, one.high) == (expected.value, expected.low, expected.high)
    assert all(a.value <= b.value for a, b in pairwise(found))


def test_trials_of_different_lengths_share_the_shortest_one_s_shares():
    assert len(over_several([[1.0] * 5, [1.0] * 500])) == 5
    assert len(over_several([[1.0] * 900, [1.0] * 500])) == 200


@pytest.mark.parametrize("trials", [[], [[1.0], []]])
def test_without_a_value_there_is_no_distribution(trials):
    with pytest.raises(ValueError, match="no values"):
        over_several(trials)


def test_an_empty_trial_has_none():
    with pytest.raises(ValueError, match="no values"):
        of_one_trial([])
