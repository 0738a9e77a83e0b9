"""Warm-up: when it may end, where it ended, and whether the rest drifts."""

from __future__ import annotations

import math
import random

import pytest

from torchstone.core.stats.steady import FEWEST, relative_drift, rising, sen_slope, settled, truncation, two_kinds


def noisy(n: int, seed: int = 0, sd: float = 0.02) -> list[float]:
    rng = random.Random(seed)
    return [rng.lognormvariate(0.0, sd) for _ in range(n)]


def test_settled_needs_two_steps_that_agree() -> None:
    assert not settled([])
    assert not settled([1.0])
    assert settled([1.0, 1.04])
    assert not settled([2.0, 1.0])
    assert settled([9.0, 1.0, 1.0])


def test_settled_looks_only_at_the_newest() -> None:
    assert settled([50.0] * 100 + [1.0] * 20)
    assert not settled([1.0] * 100 + [0.98**i for i in range(20)])


def test_settled_shrugs_off_one_interrupted_step() -> None:
    assert settled([1.0] * 15 + [30.0] + [1.0] * 4)


@pytest.mark.parametrize("n", [20, 49, 50, 200, 1000])
def test_truncation_finds_the_end_of_a_slow_beginning(n: int) -> None:
    slow = n // 10
    found = truncation([3.0] * slow + noisy(n - slow))
    assert slow <= found <= slow + max(5, n // 10)


def test_truncation_leaves_steady_steps_alone() -> None:
    assert truncation([1.0] * 300) == 0
    assert truncation([0.1] * 7) == 0
    assert truncation([]) == truncation([1.0]) == 0
    assert sum(truncation(noisy(400, seed)) for seed in range(50)) / 50 < 60


def test_drift_is_the_relative_change_over_the_window() -> None:
    for n in (5, 60, 5000):
        rising = [1.0 + 0.2 * i / (n - 1) for i in range(n)]
        assert relative_drift(rising) == pytest.approx(0.2 / 1.1, rel=0.01)
        assert relative_drift(rising[::-1]) == pytest.approx(-0.2 / 1.1, rel=0.01)
    assert relative_drift([1.0] * 50) == 0.0
    assert relative_drift([1.0] * 4) is None
    assert relative_drift([0.0] * 9) is None


def test_drift_is_robust_to_outliers() -> None:
    steps = noisy(200)
    steps[::17] = [40.0] * len(steps[::17])
    found = relative_drift(steps)
    assert found is not None
    assert abs(found) < 0.03


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


def test_two_kinds_are_told_apart():
    values = [1.0, 1.01, 0.99, 1.02, 0.98] * 6 + [2.0, 2.02, 1.98, 2.04, 1.96] * 4
    found = two_kinds(values)
    assert found is not None
    assert found.low == pytest.approx(1.0, rel=0.01)
    assert found.high == pytest.approx(2.0, rel=0.01)
    assert found.share == pytest.approx(0.4)
    assert found.separation > 20
    assert found.low < found.border < found.high


def test_one_kind_is_not_clean():
    rng = random.Random(3)
    normal = [two_kinds([math.exp(rng.gauss(0.0, 0.1)) for _ in range(200)]) for _ in range(40)]
    even = [two_kinds([math.exp(rng.uniform(0.0, 0.3)) for _ in range(200)]) for _ in range(40)]
    assert all(found is not None and 2.2 < found.separation < 3.4 for found in normal)
    assert all(found is not None and 3.0 < found.separation < 4.2 for found in even)


def test_too_few_or_equal_values_have_no_split():
    assert two_kinds([1.0] * (FEWEST - 1)) is None
    assert two_kinds([1.0] * 50) is None
    two = two_kinds([1.0] * 15 + [2.0] * 15)
    assert two is not None
    assert two.separation > 1e6
