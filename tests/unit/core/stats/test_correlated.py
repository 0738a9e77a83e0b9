"""Means and slopes by hand, and what correlation does to their errors."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.signal import lfilter

from torchstone.core.stats.correlated import block_medians, mean, paired_means, relative_half_width, slope


def test_a_mean_of_values_without_correlation_is_that_of_the_textbook():
    values = [1.0, 3.0, 3.0, 1.0] * 2 + [1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0, 1.0]  # no trend; neighbours mostly differ
    known = mean(values)
    assert known is not None
    assert known.value == pytest.approx(2.0)
    assert known.df == 14.0, "16 values, and a line"
    assert known.error == pytest.approx(math.sqrt(16 / 14 / 16))
    low, high = known.interval()
    assert high - 2.0 == pytest.approx(2.0 - low) == pytest.approx(2.1448 * known.error, rel=1e-4)


def test_a_trend_is_no_noise():
    known = mean([5.0 - 0.1 * place for place in range(21)])
    assert known is not None
    assert known.value == pytest.approx(4.0)
    assert known.error == pytest.approx(0.0, abs=1e-12)


def test_a_slope_of_values_on_a_line_is_known_exactly():
    known = slope([3.0 - 0.5 * place for place in range(10)])
    assert known is not None
    assert known.value == pytest.approx(-0.5)
    assert known.error == pytest.approx(0.0, abs=1e-12)


def test_neighbours_that_resemble_each_other_count_less():
    apart = [1.0, 3.0] * 10
    together = [*[1.0] * 5, *[3.0] * 10, *[1.0] * 5]
    loose, tight = mean(apart), mean(together)
    assert loose is not None
    assert tight is not None
    assert tight.error > 2.0 * loose.error
    assert tight.df < loose.df / 2.0


def test_too_few_values_have_neither():
    assert mean([1.0] * 5) is None
    assert slope([1.0] * 5) is None


def test_blocks_are_whole_cycles_of_four_where_there_are_enough():
    assert block_medians(list(range(10))) == (list(range(10)), 1)
    medians, size = block_medians([9.0, 9.0, 9.0, *[float(step // 8) for step in range(160)]])
    assert size == 8
    assert medians == [float(block) for block in range(20)], "what is left over is left out at the beginning"
    assert block_medians([0.0] * 119)[1] == 4


def test_differences_are_those_of_equal_shares_of_the_work():
    fine, coarse = [float(step) for step in range(40)], [float(2 * step) for step in range(20)]
    assert paired_means(fine, coarse) == pytest.approx([0.5] * 10)
    assert paired_means(fine, coarse[:11]) == []


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
