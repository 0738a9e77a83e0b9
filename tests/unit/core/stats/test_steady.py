"""Warm-up: when it may end, where it ended, and whether the rest drifts."""

from __future__ import annotations

import random

import pytest

from torchstone.core.stats.steady import drift, settled, truncation


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
        assert drift(rising) == pytest.approx(0.2 / 1.1, rel=0.01)
        assert drift(rising[::-1]) == pytest.approx(-0.2 / 1.1, rel=0.01)
    assert drift([1.0] * 50) == 0.0
    assert drift([1.0] * 4) is None
    assert drift([0.0] * 9) is None


def test_drift_is_robust_to_outliers() -> None:
    steps = noisy(200)
    steps[::17] = [40.0] * len(steps[::17])
    found = drift(steps)
    assert found is not None
    assert abs(found) < 0.03
