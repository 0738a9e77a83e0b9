"""Order-statistic quantiles, their interval against scipy's binomial, and the sample they need."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from torchstone.core.stats.quantile import bounds, needed, quantile, supported


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
