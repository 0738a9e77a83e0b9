"""Levels of a series: edges, weights, outliers and what is refused."""

import math

import pytest

from torchstone.core.stats.change_points import levels

WOBBLE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 0.992, 1.008)


def series(*parts: tuple[float, int]) -> list[float]:
    values = [level for level, n in parts for _ in range(n)]
    return [value * WOBBLE[place * 3 % 8] for place, value in enumerate(values)]


def begins(values, errors=()):
    return [level.begin for level in levels(values, errors).levels]


def test_one_level_of_few_values_and_of_equal_ones():
    assert begins([5.0]) == [0]
    assert begins([5.0, 9.0, 5.0]) == [0]
    told = levels([3.0] * 12)
    assert begins([3.0] * 12) == [0]
    assert math.exp(told.levels[0].log) == pytest.approx(3.0)
    assert told.levels[0].values == 12


def test_a_step_its_ratio_and_its_interval():
    told = levels(series((100.0, 8), (90.0, 9)))
    before, after = told.levels
    assert (before.begin, before.end, after.begin, after.end) == (0, 8, 8, 17)
    value, low, high = told.difference(before, after).ratio(0.95)
    assert low < 0.9 < high
    assert value == pytest.approx(0.9, rel=0.01)
    assert high < 1.0


def test_a_step_of_values_that_do_not_vary_at_all():
    assert begins([10.0] * 5 + [11.0] * 5) == [0, 5]


def test_up_and_back_again_and_three_levels():
    assert begins(series((100.0, 10), (92.0, 10), (100.0, 10))) == [0, 10, 20]
    assert begins(series((100.0, 10), (90.0, 10), (80.0, 10))) == [0, 10, 20]


def test_a_single_outlier_is_left_out_and_three_at_the_end_are_a_level():
    values = series((100.0, 12))
    values[5] = 60.0
    told = levels(values)
    assert told.outliers == (5,)
    assert len(told.levels) == 1
    assert math.exp(told.levels[0].log) == pytest.approx(100.0, rel=0.01)
    assert begins(series((100.0, 12), (80.0, 3))) == [0, 12]
    assert begins(series((100.0, 12), (80.0, 1))) == [0]


def test_a_slow_drift_is_no_step():
    values = [value * (1.0 + 0.002 * place) for place, value in enumerate(series((100.0, 40)))]
    assert begins(values) == [0]


def test_a_run_that_knows_its_figure_badly_counts_less():
    values = series((100.0, 8))
    values[7] = 103.0
    close, wide = (levels(values, [0.01] * 7 + [last]).levels[0] for last in (0.01, 0.5))
    assert wide.log < close.log
    assert levels(values, [None] * 8).levels[0].log == pytest.approx(levels(values).levels[0].log)


def test_a_long_history_is_looked_through():
    assert begins(series((100.0, 300), (95.0, 300), (100.0, 300))) == [0, 300, 600]


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [1.0, -2.0], [1.0, math.inf], [1.0, math.nan]])
def test_what_is_no_history_is_refused(values):
    with pytest.raises(ValueError, match="a history needs values"):
        levels(values)
