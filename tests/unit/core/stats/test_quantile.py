"""Order-statistic quantiles, their interval against scipy's binomial, and the sample they need."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.quantile import (
    band_half_width,
    bounds,
    needed,
    of_one_trial,
    over_several,
    quantile,
    supported,
)


@pytest.mark.parametrize(("q", "n"), [(0.9, 64), (0.95, 130), (0.99, 662), (0.999, 6636)])
def test_needs_what_mlperf_needs(q: float, n: int) -> None:
    assert needed(q) == n
    assert supported(q, n)
    assert not supported(q, n - 1)
    assert stats.binom.cdf(1, n, 1 - q) <= 0.01 < stats.binom.cdf(1, n - 1, 1 - q)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 20, 100, 101])
def test_is_hyndman_and_fan_definition_1(n: int) -> None:
    values = random.Random(n).sample(range(1000), n)
    for q in (0.05, 0.5, 0.9, 0.95, 0.99):
        assert quantile(values, q) == np.quantile(values, q, method="inverted_cdf")


def test_binary_fractions_do_not_move_the_rank() -> None:
    assert 100 * 0.07 > 7
    assert quantile(range(1, 101), 0.07) == 7


@pytest.mark.parametrize(("n", "q"), [(20, 0.5), (100, 0.9), (1000, 0.99), (50_000, 0.95)])
def test_bounds_are_the_binomial_ranks(n: int, q: float) -> None:
    low, high = bounds(range(1, n + 1), q)
    assert low is not None
    assert high is not None
    assert stats.binom.cdf(low - 1, n, q) <= 0.025 < stats.binom.cdf(low, n, q)
    assert stats.binom.sf(high - 1, n, q) <= 0.025 < stats.binom.sf(high - 2, n, q)


def test_a_small_sample_has_no_upper_bound() -> None:
    assert bounds([1.0, 2.0, 3.0], 0.99).high is None
    assert bounds([1.0], 0.5) == (None, None)


def test_bounds_cover_the_true_quantile() -> None:
    draws = np.random.default_rng(1).exponential(size=(1000, 130))
    truth = stats.expon.ppf(0.9)
    hits = [low <= truth <= high for low, high in (bounds(row.tolist(), 0.9) for row in draws)]
    assert 0.94 <= np.mean(hits) <= 0.99


@pytest.mark.parametrize("q", [0.0, 1.0, -1.0])
def test_refuses_what_is_no_quantile(q: float) -> None:
    with pytest.raises(ValueError):
        quantile([1.0], q)
    with pytest.raises(ValueError):
        quantile([], 0.5)


def test_the_half_width_is_massart_s():
    assert band_half_width(100) == pytest.approx(math.sqrt(math.log(40.0) / 200.0))
    assert band_half_width(1000) == pytest.approx(0.04294694083467376)
    assert band_half_width(400, 0.99) < band_half_width(100, 0.99)


@pytest.mark.parametrize(("n", "level"), [(0, 0.95), (10, 0.0), (10, 1.0)])
def test_a_band_needs_values_and_a_level(n, level):
    with pytest.raises(ValueError, match="no band"):
        band_half_width(n, level)


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
