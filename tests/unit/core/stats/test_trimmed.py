"""The trimmed mean: what is far out does not move it, and its error is that of what is left."""

import random
from statistics import fmean, stdev

import pytest

from torchstone.core.stats.trimmed import trimmed, trimmed_mean


def test_what_is_far_out_does_not_count():
    assert trimmed_mean([1.0, 2.0, 3.0, 4.0, 1e9]) == pytest.approx(3.0)
    assert trimmed_mean([5.0]) == 5.0


def test_without_trimming_it_is_the_mean_and_its_standard_error():
    values = [1.0, 2.5, 3.0, 4.5]
    found = trimmed(values, 0.0)
    assert found is not None
    assert found.value == pytest.approx(fmean(values))
    assert found.error == pytest.approx(stdev(values) / 2.0)
    assert found.df == 3


def test_yuens_own_formula():
    """Winsorized 2 2 3 4 4 has the sum of squares 4; (n-1) s_w^2 / (h (h-1)) is 4 / 6."""
    found = trimmed([1.0, 2.0, 3.0, 4.0, 90.0])
    assert found is not None
    assert (found.value, found.df) == (3.0, 2)
    assert found.error**2 == pytest.approx(4.0 / 6.0)


def test_the_error_holds_for_normal_values():
    dice = random.Random(3)
    found = [trimmed([dice.gauss(0.0, 1.0) for _ in range(20)]) for _ in range(800)]
    spread = stdev(f.value for f in found if f is not None)
    assert fmean(f.error for f in found if f is not None) == pytest.approx(spread, rel=0.08)


def test_one_value_has_no_error_and_none_is_a_mistake():
    assert trimmed([1.0]) is None
    with pytest.raises(ValueError, match="finite"):
        trimmed([])
    with pytest.raises(ValueError, match="finite"):
        trimmed_mean([float("nan")])
    with pytest.raises(ValueError, match="share"):
        trimmed([1.0, 2.0], 0.5)
