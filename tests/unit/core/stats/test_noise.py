"""Batch means: the interval covers the true mean although steps resemble their neighbours."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.signal import lfilter

from torchstone.core.stats.noise import relative_half_width


def correlated(rng: np.random.Generator, draws: int, n: int, r: float) -> np.ndarray:
    shocks = rng.normal(size=(draws, n + 200)) * np.sqrt(1 - r * r)
    steps: np.ndarray = lfilter([1.0], [1.0, -r], shocks, axis=1)[:, 200:]
    return steps


@pytest.mark.parametrize(
    ("n", "r", "least"),
    [(12, 0.0, 0.93), (200, 0.0, 0.93), (200, 0.5, 0.93), (2000, 0.8, 0.93), (200, 0.8, 0.90)],
)
def test_covers_the_mean_of_correlated_steps(n: int, r: float, least: float) -> None:
    steps = 1.0 + 0.13 * correlated(np.random.default_rng(n), 600, n, r)
    hits = 0
    for row in steps.tolist():
        half = relative_half_width(row)
        assert half is not None
        mean = sum(row) / n
        hits += abs(mean - 1.0) <= half * mean
    print(f"n={n} r={r}: covers {hits / 600:.3f}")
    assert hits / 600 >= least


def test_says_none_where_steps_are_few() -> None:
    assert relative_half_width([1.0] * 5) is None
    assert relative_half_width([0.0] * 10) is None


def test_equal_steps_have_no_width() -> None:
    assert relative_half_width([0.5] * 6) == 0.0


def test_is_fast_enough_to_be_asked_while_measuring() -> None:
    steps = [1.0 + (i % 7) * 0.01 for i in range(300_000)]
    begin = time.process_time()
    relative_half_width(steps)
    assert time.process_time() - begin < 0.1
