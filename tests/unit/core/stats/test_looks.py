"""Looks at a comparison spend a budget of false alarms, and never more."""

import pytest

from torchstone.core.stats.looks import Spending, half_width
from torchstone.core.stats.trimmed import Location


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
    assert half_width(Location(0.0, 0.5, 10.0), 0.05) == pytest.approx(0.5 * 2.228, rel=1e-3)
