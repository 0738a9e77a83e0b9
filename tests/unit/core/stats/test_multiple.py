"""Many comparisons: which stand, and intervals that say the same as the tests."""

import random

import pytest

from torchstone.core.stats.multiple import benjamini_hochberg, holm


def test_holm_steps_down():
    flags, level = holm([0.01, 0.04, 0.03, 0.005], 0.05)
    assert flags == [True, False, False, True]
    assert level == pytest.approx(1 - 0.05 / 3)
    assert holm([0.2], 0.05) == ([False], 0.95)
    flags, level = holm([0.013, 0.5, 0.5, 0.5], 0.05)
    assert flags == [False] * 4, "a lone one needs more"
    assert level == pytest.approx(1 - 0.05 / 4)


def test_benjamini_and_hochberg_step_up():
    flags, level = benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.9], 0.05)
    assert flags == [True, True, True, True, False]
    assert level == pytest.approx(1 - 0.05 * 4 / 5)
    flags, level = benjamini_hochberg([0.5, 0.6], 0.05)
    assert flags == [False, False]
    assert level == pytest.approx(0.975)


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_an_interval_of_the_level_leaves_1_out_exactly_where_a_difference_stands(correct):
    dice = random.Random(3)
    for _ in range(300):
        p_values = [dice.random() ** dice.choice((1, 8)) for _ in range(dice.randint(1, 12))]
        flags, level = correct(p_values, 0.05)
        assert flags == [p <= 1.0 - level + 1e-15 for p in p_values]


def test_no_figures_and_a_wrong_share():
    assert holm([], 0.05)[0] == []
    assert benjamini_hochberg([], 0.05)[0] == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1], 1.0)
