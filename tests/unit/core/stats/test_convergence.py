"""The rate of convergence on curves whose rate is known, the end, and the way to a target."""

import math

import pytest

from torchstone.core.stats.convergence import direction, ending, is_learned, rate, steps_to


def falling(steps, slope=-0.01, start=2.3):
    return [start * math.exp(slope * step) for step in range(steps)]


@pytest.mark.parametrize("steps", [8, 30, 100, 333])
def test_a_loss_that_shrinks_by_a_constant_factor_has_one_rate(steps):
    found = rate(falling(steps))
    assert found is not None
    assert found.value == pytest.approx(-0.01)
    assert found.low == pytest.approx(-0.01)
    assert found.high == pytest.approx(-0.01)
    assert found.steps == steps - min(10, steps // 10)


def test_the_scale_of_a_loss_changes_nothing():
    one, thousand = rate(falling(50)), rate(falling(50, start=2300.0))
    assert one is not None
    assert thousand is not None
    assert one.value == pytest.approx(thousand.value)


def test_what_is_learned_by_heart_ends_the_curve():
    learned = [2.3 * math.exp(-0.1 * step) if step < 100 else 0.0 for step in range(500)]
    found = rate(learned)
    assert found is not None
    assert found.value == pytest.approx(-0.1, rel=0.02)
    assert found.steps < 80, "until a thousandth of the start"
    assert is_learned(learned)
    assert direction(learned) == -1
    assert direction([2.3, 2.2, 2.3, 2.0, *[0.0] * 40]) == -1, "within the first few steps"


def test_no_rate_of_what_has_no_logarithm_or_is_too_short():
    assert rate([2.0] * 7) is None
    assert rate([]) is None
    assert rate([*falling(20), math.nan]) is None
    assert rate([1.0 - 0.1 * step for step in range(30)]) is None
    assert rate([0.0] * 30) is None
    assert direction([1.0 - 0.1 * step for step in range(30)]) == -1, "a loss below 0 has a direction all the same"
    assert direction([math.inf] * 30) is None
    assert direction([1.0] * 7) is None


def test_a_loss_that_stays_has_no_direction_and_one_that_rises_has():
    assert direction([2.0 + 0.1 * (-1) ** step for step in range(60)]) == 0
    assert direction(falling(60, slope=0.01)) == 1


def test_the_end_is_the_last_tenth_of_at_least_eight_steps_and_at_most_half():
    found = ending([5.0] * 90 + [1.0] * 10)
    assert found is not None
    assert found.value == 1.0
    assert found.low == pytest.approx(1.0) == found.high
    assert found.method == "mean of the last 10 steps"
    short = ending([5.0] * 5 + [1.0] * 5)
    assert short is not None
    assert (short.value, short.low) == (1.0, None)
    assert ending([3.0]) == (3.0, None, None, "mean of the last 1 steps")
    assert ending([]) is None
    assert ending([1.0] * 30 + [math.nan]) is None
    lost_before = ending([math.inf] + [1.0] * 30)
    assert lost_before is not None
    assert lost_before.value == 1.0


def test_steps_to_a_target_are_those_of_the_mean_of_four():
    losses = [4.0, 3.0, 0.5, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    assert steps_to(losses, 1.0) == 9
    assert steps_to(losses, 2.65) == 4
    assert steps_to(losses, 0.9) is None
    assert steps_to(losses[:3], 9.0) is None
