"""What a probe is worth: what the answer gains, given what is left to spend."""

import pytest

from torchstone.plugins.searchers.adaptive.acquisition import Field, _gain

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
