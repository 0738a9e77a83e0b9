"""The expected growth of a maximum of lines: against an integral, and where it is known in closed form."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchstone.plugins.searchers.adaptive import Field, _gain, expected_gain

LINES = st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=12)
GRID = np.linspace(-9.0, 9.0, 20_001)
WEIGHTS = np.exp(-0.5 * GRID**2) / np.exp(-0.5 * GRID**2).sum()


@settings(max_examples=80)
@given(LINES)
@example([(0.0, 0.0), (1.0, 5e-324)])
@example([(0.0, 0.0), (1.0, -5e-324)])
def test_is_the_integral(lines):
    means, slopes = zip(*lines, strict=True)
    grown = (np.array(means)[:, None] + np.array(slopes)[:, None] * GRID).max(axis=0)
    assert expected_gain(means, slopes) == pytest.approx(float(grown @ WEIGHTS) - max(means), abs=1e-5)


def test_with_one_uncertain_point_is_expected_improvement():
    """Jones, Schonlau & Welch 1998, equation 15."""
    best, mean, sd = 1.0, 0.7, 0.5
    z = (mean - best) / sd
    density, tail = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi), 0.5 * math.erfc(-z / math.sqrt(2))
    assert expected_gain([best, mean], [0.0, sd]) == pytest.approx((mean - best) * tail + sd * density)


@given(LINES, st.floats(-5, 5))
def test_a_shift_of_all_changes_nothing_and_more_doubt_never_less(lines, shift):
    means, slopes = zip(*lines, strict=True)
    gain = expected_gain(means, slopes)
    assert gain >= 0.0
    assert expected_gain([m + shift for m in means], slopes) == pytest.approx(gain, abs=1e-9)
    assert expected_gain(means, [2.0 * s for s in slopes]) >= gain - 1e-12


def test_what_moves_all_alike_gains_nothing():
    assert expected_gain([1.0, 2.0, 3.0], [0.4, 0.4, 0.4]) == 0.0


# Three contenders: one measured, two not; the last is believed best, and dear.
FIELD = Field([0.0, 0.01, 0.05], [0.0, 1.0, 20.0])
SHARP = (0.0, 0.0, 0.1)  # a probe that moves the last alone


def test_joining_the_measured_is_worth_the_lead_that_it_has():
    sure = _gain(FIELD, (0.0, 0.0, 0.0), joins=2, price=0.0, left_s=100.0)
    assert sure == pytest.approx(0.05)
    assert _gain(FIELD, SHARP, joins=2, price=0.0, left_s=100.0) > sure


def test_what_a_part_tells_of_a_point_is_worth_nothing_where_the_point_can_no_longer_be_measured():
    assert _gain(FIELD, SHARP, joins=None, price=0.0, left_s=25.0) > 0.01
    assert _gain(FIELD, SHARP, joins=None, price=0.0, left_s=10.0) == 0.0


def test_what_a_part_tells_is_worth_less_the_dearer_the_measurement_that_must_follow():
    close = Field([0.0, 0.0], [0.0, 20.0])
    gains = [_gain(close, (0.0, 0.05), joins=None, price=price, left_s=100.0) for price in (0.0, 0.001, 0.005)]
    assert gains[0] > gains[1] > gains[2] > 0.0


def test_reading_what_is_measured_again_is_worth_what_it_may_change():
    two = Field([0.0, -0.01], [0.0, 0.0])
    assert _gain(two, (0.0, 0.0), joins=1, price=0.0, left_s=1.0) == 0.0
    assert _gain(two, (0.0, 0.02), joins=1, price=0.0, left_s=1.0) > 0.001
