"""Quantiles against scipy."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from torchstone.core.stats.student import from_log, normal_quantile, t_quantile, tail, two_sided

DF = [1, 2, 3, 4, 5, 7, 9, 10, 19, 20, 30, 50, 99, 100, 250, 500, 999, 1000]
LEVELS = [0.5, 0.501, 0.51, 0.6, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999]


@pytest.mark.parametrize("df", DF)
def test_agrees_with_scipy(df: int) -> None:
    for level in LEVELS:
        assert t_quantile(level, df) == pytest.approx(stats.t.ppf(level, df), rel=1e-8, abs=1e-14)
        assert two_sided(level, df) == pytest.approx(stats.t.ppf(0.5 + level / 2, df), rel=1e-8)


def test_every_df_to_1000_at_95_percent() -> None:
    for df in range(1, 1001):
        assert t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-8)


@pytest.mark.parametrize("df", [0.5, 1.7, 3.3, 12.25, 1e5])
def test_fractional_degrees_of_freedom_as_welch_has_them(df: float) -> None:
    for level in LEVELS:
        assert t_quantile(level, df) == pytest.approx(stats.t.ppf(level, df), rel=1e-8, abs=1e-12)


def test_is_symmetric_and_tends_to_the_normal() -> None:
    assert t_quantile(0.025, 4) == -t_quantile(0.975, 4)
    assert t_quantile(0.975, float("inf")) == normal_quantile(0.975)
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), rel=1e-12)


@pytest.mark.parametrize("df", [9e8, 1.1e9, 3.4e17, 1e30])
def test_so_many_degrees_of_freedom_as_two_equal_trials_have(df: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-6)
    assert tail(2.0, df) == pytest.approx(stats.t.sf(2.0, df), rel=1e-5)


def test_close_to_the_median_it_is_a_straight_line() -> None:
    # scipy 1.17 is off by 4e-5 here; the density at 0 is 3/8 for 4 degrees of freedom
    assert t_quantile(0.500001, 4) == pytest.approx(1e-6 / 0.375, rel=1e-8)


@pytest.mark.parametrize(
    ("probability", "df"), [(0.0, 3), (1.0, 3), (1.5, 3), (0.9, 0), (0.9, -1), (0.9, float("nan"))]
)
def test_refuses_what_has_no_quantile(probability: float, df: float) -> None:
    with pytest.raises(ValueError):
        t_quantile(probability, df)


def test_what_can_be_told_is_told() -> None:
    assert from_log(math.log(1.03)) == pytest.approx(1.03)


@pytest.mark.parametrize("log", [800.0, -800.0, math.inf, -math.inf])
def test_what_no_record_can_carry_stays_positive_and_finite(log: float) -> None:
    assert 0.0 < from_log(log) < math.inf
    assert math.isfinite(math.log(from_log(log)))
