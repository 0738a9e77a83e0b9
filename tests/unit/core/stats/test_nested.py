"""Pair values in groups: the interval sees what the pairs of a template share."""

import pytest

from torchstone.core.stats.nested import nested_mean
from torchstone.core.stats.random_effects import random_effects

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
