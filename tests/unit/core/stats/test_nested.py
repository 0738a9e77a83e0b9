"""Pair values in groups: the interval sees what the pairs of a template share."""

import math
import random
from statistics import fmean, stdev

import pytest

from torchstone.core.stats.nested import (
    Location,
    Spending,
    location_half_width,
    nested_mean,
    random_effects,
    trimmed,
    trimmed_mean,
)
from torchstone.core.stats.student import t_quantile

VALUES = [(value, 0.001) for value in (0.01, 0.012, 0.011, 0.009, 0.013, 0.01)]


def test_without_spread_between_templates_it_is_the_weighted_mean():
    whole = random_effects([v for v, _ in VALUES * 2], [e for _, e in VALUES * 2])
    found = nested_mean([VALUES, VALUES], assumed=0.0)
    assert whole is not None
    assert found is not None
    assert found.value == pytest.approx(whole.value)
    assert found.error == pytest.approx(whole.error)


def test_one_template_says_nothing_of_the_others_so_a_spread_is_assumed():
    narrow, wide = nested_mean([VALUES], assumed=0.0), nested_mean([VALUES], assumed=0.01)
    assert narrow is not None
    assert wide is not None
    assert wide.error**2 == pytest.approx(narrow.error**2 + 0.01**2 * (1.0 - 1.0 / len(VALUES)))


def test_templates_that_differ_widen_the_interval():
    apart = [[(v + shift, e) for v, e in VALUES] for shift in (-0.02, 0.0, 0.02)]
    near, far = nested_mean([VALUES] * 3), nested_mean(apart)
    assert near is not None
    assert far is not None
    assert far.error > 2.0 * near.error


def test_many_templates_that_agree_talk_the_assumption_down():
    one, many = nested_mean([VALUES]), nested_mean([VALUES] * 12)
    assert one is not None
    assert many is not None
    assert many.error < one.error / 3.0


def test_too_little_has_no_error():
    assert nested_mean([]) is None
    assert nested_mean([[], [(0.1, 0.1)]]) is None


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


def test_equal_errors_give_the_plain_mean_and_its_own_error():
    found = random_effects([1.0, 2.0, 3.0, 4.0], [0.1] * 4)
    assert found is not None
    assert found.value == pytest.approx(2.5)
    assert found.error == pytest.approx(math.sqrt(5.0 / 3.0 / 4.0))
    assert found.df == pytest.approx(3.0)


def test_what_is_known_badly_hardly_counts():
    found = random_effects([1.0, 1.01, 0.99, 9.0], [0.01, 0.01, 0.01, 5.0])
    assert found is not None
    assert found.value == pytest.approx(1.0, abs=0.01)
    assert found.df == pytest.approx(2.0, abs=0.05)


def test_values_that_scatter_more_than_their_errors_say_count_alike():
    found = random_effects([1.0, 5.0, 1.2, 4.9], [0.001, 0.1, 0.001, 0.1])
    assert found is not None
    assert found.value == pytest.approx(2.7, abs=0.1)


def test_the_interval_holds_where_moods_change_and_errors_are_guessed():
    dice = random.Random(8)
    held = 0
    for _ in range(1000):
        errors = [0.01 * math.exp(dice.gauss(0.0, 1.0)) for _ in range(12)]
        seen = [e * math.sqrt(dice.gammavariate(8.0, 1.0 / 8.0)) for e in errors]
        found = random_effects([dice.gauss(0.0, e) + dice.gauss(0.0, 0.004) for e in errors], seen)
        held += found is not None and abs(found.value) <= t_quantile(0.975, found.df) * found.error
    assert 0.94 <= held / 1000 <= 0.995


def test_a_value_that_only_looks_sure_does_not_make_the_mean_sure():
    found = random_effects([0.03, 0.01, 0.02, 0.0, 0.03, 0.01], [0.0005, 0.02, 0.02, 0.02, 0.02, 0.02])
    assert found is not None
    assert found.value == pytest.approx(0.03, abs=0.001), "it carries nearly all of the weight"
    assert found.error > 0.01, "without it the mean would be 0.014"


def test_one_value_has_no_error():
    assert random_effects([1.0], [0.1]) is None
    with pytest.raises(ValueError, match="2 values, 1 errors"):
        random_effects([1.0, 2.0], [0.1])


def test_all_looks_together_spend_the_bound_and_no_more():
    spending = Spending(0.01)
    levels = [spending.level(progress) for progress in (0.1, 0.3, 0.7, 1.0)]
    assert levels == pytest.approx([0.0001, 0.0008, 0.004, 0.0051])
    assert sum(levels) == pytest.approx(0.01)
    assert spending.level(1.5) == 0.0


def test_time_that_stands_still_gives_nothing():
    spending = Spending(0.05)
    spending.level(0.5)
    assert spending.level(0.4) == 0.0
    assert spending.level(0.5) == 0.0


def test_a_bound_must_be_a_probability():
    with pytest.raises(ValueError, match="not between"):
        Spending(1.0)


def test_half_width_is_students():
    assert location_half_width(Location(0.0, 0.5, 10.0), 0.05) == pytest.approx(0.5 * 2.228, rel=1e-3)
