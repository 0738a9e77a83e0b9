"""The interval over trials: its shape at 1, 2 and many values, and its value against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from torchstone.core.stats.interval import LOG_T, PLAIN_T, over_trials, wilson


def test_positive_values_get_the_log_interval() -> None:
    values = [0.9, 1.1, 1.4, 1.0]
    logs = np.log(values)
    low, high = stats.t.interval(0.95, 3, logs.mean(), stats.sem(logs))
    got = over_trials(values)
    assert got.method == LOG_T
    assert (got.value, got.low, got.high) == pytest.approx((stats.gmean(values), math.exp(low), math.exp(high)))


def test_a_value_at_or_below_0_gets_the_plain_interval() -> None:
    values = [0.0, 0.3, -0.1]
    got = over_trials(values, level=0.9)
    low, high = stats.t.interval(0.9, 2, np.mean(values), stats.sem(values))
    assert got.method == PLAIN_T
    assert (got.value, got.low, got.high) == pytest.approx((np.mean(values), low, high))


def test_one_value_has_no_interval() -> None:
    assert over_trials([3.0])[:3] == (3.0, None, None)


def test_two_values_have_a_wide_one() -> None:
    got = over_trials([1.0, 1.1])
    assert got.low is not None
    assert got.high is not None
    assert got.high / got.low > 2.0


@pytest.mark.parametrize("value", [0.1, 0.0, -2.0])
def test_identical_values_have_an_interval_without_width(value: float) -> None:
    assert over_trials([value] * 3)[:3] == (value, value, value)


def test_far_apart_values_stay_finite() -> None:
    assert all(math.isfinite(x) for x in over_trials([1e-300, 1e300])[:3] if x is not None)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_refuses_nothing_and_what_is_not_finite(values: list[float]) -> None:
    with pytest.raises(ValueError):
        over_trials(values)


def test_published_values():
    assert list(wilson(0.1, 10)) == pytest.approx([0.0179, 0.4042], abs=1e-4)
    assert wilson(0.0, 20)[0] == 0.0
    assert list(wilson(1.0, 20)) == pytest.approx([0.8389, 1.0], abs=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.93])
def test_it_covers_what_it_says(share):
    n, covered = 50, 0.0
    for hits in range(n + 1):
        low, high = wilson(hits / n, n)
        if low <= share <= high:
            covered += math.comb(n, hits) * share**hits * (1.0 - share) ** (n - hits)
    assert 0.92 <= covered <= 0.98


@pytest.mark.parametrize(("share", "n"), [(0.5, 0), (1.2, 5), (-0.1, 5)])
def test_what_is_no_share(share, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(share, n)
