"""Counters and rates over a window: exact on straight lines, silent where readings do not reach."""

from __future__ import annotations

import pytest

from torchstone.core.stats.readings import increase, inside, integral, neighbouring_readings


def test_a_counter_is_read_between_its_readings() -> None:
    assert increase([0, 1, 2, 3], [0, 10, 20, 30], 0.5, 2.25) == pytest.approx(17.5)
    assert increase([0, 10], [0, 100], 4, 5) == pytest.approx(10)
    assert increase([0, 10], [0, 100], 0, 10) == pytest.approx(100)


def test_a_rate_is_integrated_by_trapezoids() -> None:
    assert integral([0, 1, 2], [100, 200, 100], 0, 2) == pytest.approx(300)
    assert integral([0, 1, 2], [100, 200, 100], 0.5, 1.5) == pytest.approx(175)
    assert integral([0, 4], [50, 50], 1, 3) == pytest.approx(100)


@pytest.mark.parametrize("span", [(-1.0, 1.0), (1.0, 4.0), (2.0, 2.0), (2.0, 1.0)])
def test_nothing_is_extrapolated(span: tuple[float, float]) -> None:
    assert increase([0, 1, 2, 3], [0, 1, 2, 3], *span) is None
    assert integral([0, 1, 2, 3], [1, 1, 1, 1], *span) is None


def test_one_reading_and_a_reset_counter_tell_nothing() -> None:
    assert increase([1.0], [5.0], 1.0, 1.0) is None
    assert increase([0, 1, 2], [100, 200, 5], 0.5, 2) is None


def test_readings_inside_several_windows() -> None:
    assert inside([0, 1, 2, 3, 4], [10, 11, 12, 13, 14], [(1, 2), (3.5, 9)]) == (11, 12, 14)
    assert inside([], [], [(0, 1)]) == ()


def test_beside_are_the_last_before_a_span_and_the_first_after_it():
    at_s, values = (0.0, 1.0, 2.0, 5.0, 6.0), (10.0, 11.0, 12.0, 15.0, 16.0)
    assert neighbouring_readings(at_s, values, [(3.0, 4.0)]) == (12.0, 15.0)
    assert neighbouring_readings(at_s, values, [(1.5, 2.5), (3.0, 4.0)]) == (11.0, 12.0, 15.0)
    assert neighbouring_readings(at_s, values, [(-1.0, 9.0)]) == ()
    assert neighbouring_readings((), (), [(0.0, 1.0)]) == ()
