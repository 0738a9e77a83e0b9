"""The rate of convergence on curves whose rate is known, the end, and the way to a target."""

import math

import pytest

from torchstone.core.stats.convergence import (
    Behaviour,
    Sameness,
    behaviour,
    direction,
    ending,
    has_diverged,
    is_learned,
    of_losses,
    rate,
    spikes,
    steps_to,
    tost,
)


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


WIGGLE = [1.0 + 0.02 * math.sin(3.0 * step) for step in range(200)]


def curve(level):
    return [level(step) * wiggle for step, wiggle in enumerate(WIGGLE)]


FALLS = curve(lambda step: 2.3 * math.exp(-0.01 * step))
CASES = (
    (FALLS, Behaviour.FALLING),
    (curve(lambda step: 2.3), Behaviour.FLAT),
    (curve(lambda step: 2.3 * math.exp(0.0008 * step)), Behaviour.RISING),
    (curve(lambda step: 2.3 * math.exp(0.02 * step)), Behaviour.DIVERGED),
    (curve(lambda step: 2.3 if step < 5 else 9.0), Behaviour.DIVERGED),
    (curve(lambda step: 2.3 * math.exp(-0.02 * step) if step < 150 else 2.0), Behaviour.DIVERGED),
    (curve(lambda step: 2.3 if step < 1 else 1e6 * math.exp(-0.2 * step) + 7.0), Behaviour.DIVERGED),
    ([-1.0, *curve(lambda step: 7.0)], Behaviour.DIVERGED),
    ([*FALLS, math.nan], Behaviour.NOT_FINITE),
    ([2.0] * 5, Behaviour.SHORT),
    ([0.75, 0.55, 0.521, 0.504, 0.4, 0.385, 0.349, 0.286, 0.244, 0.246], Behaviour.SHORT),
)


@pytest.mark.parametrize(("losses", "does"), CASES)
def test_what_a_loss_does(losses, does):
    assert behaviour(losses) == does
    assert has_diverged(losses) == (does == Behaviour.DIVERGED)


def test_what_came_back_has_not_diverged():
    assert behaviour(curve(lambda step: 9.0 if 60 <= step < 90 else 2.3 * math.exp(-0.01 * step))) == Behaviour.FALLING


def test_what_is_learned_by_heart_may_flicker():
    assert behaviour(curve(lambda step: 2.3 * math.exp(-0.1 * step) if step < 170 else 0.05)) == Behaviour.FALLING


def test_nothing_is_said_of_a_few_steps():
    assert not has_diverged([1.0] * 19 + [100.0] * 20)
    assert not spikes([1.0] * 20 + [100.0] + [1.0] * 18)
    assert not spikes([*FALLS, math.nan])


def test_spikes_are_counted_once_each_with_the_step_at_which_they_begin():
    losses = list(FALLS)
    losses[50], losses[51], losses[120] = 20.0, 8.0, 9.0
    assert spikes(losses) == (50, 120)
    assert behaviour(losses) == Behaviour.FALLING


def test_a_fall_is_no_spike_and_what_leaps_near_0_spoils_nothing():
    assert not spikes(curve(lambda step: 9.0 if step < 100 else 1.0))
    low = curve(lambda step: 2.3 * math.exp(-0.1 * step))
    low[150] = 0.1
    assert not spikes(low)


def test_a_loss_below_0_has_spikes_too():
    losses = [loss - 5.0 for loss in WIGGLE]
    losses[80] = 3.0
    assert spikes(losses) == (80,)
    assert not spikes([loss - 5.0 for loss in WIGGLE])
    assert not has_diverged([loss - 5.0 for loss in WIGGLE])


WIGGLE_EQUIVALENCE = [0.1 * (-1) ** step for step in range(100)]


@pytest.mark.parametrize(
    ("centre", "verdict"),
    [
        (0.0, Sameness.EQUIVALENT),
        (0.3, Sameness.EQUIVALENT),
        (0.5, Sameness.DIFFERENT),
        (-0.5, Sameness.DIFFERENT),
        (2.0, Sameness.DIFFERENT),
    ],
)
def test_within_the_margin_not_0_or_neither(centre, verdict):
    found = tost([centre + wiggle for wiggle in WIGGLE_EQUIVALENCE[:20]], 0.4)
    assert found is not None
    assert found.verdict == verdict
    assert found.difference == pytest.approx(centre)
    assert found.low < found.difference < found.high
    assert found.units == 20


def test_noise_that_hides_the_margin_leaves_it_unclear():
    found = tost([3.0 * wiggle for wiggle in WIGGLE_EQUIVALENCE[:6]], 0.1)
    assert found is not None
    assert found.verdict == Sameness.UNCLEAR
    assert tost(WIGGLE_EQUIVALENCE[:5], 0.1) is None


def test_equal_losses_are_equivalent_to_the_bit():
    losses = [2.0 - 0.01 * step for step in range(100)]
    found = of_losses(losses, losses)
    assert found is not None
    assert found[:3] == (0.0, 0.0, 0.0)
    assert found.margin == pytest.approx(0.01 * 1.505)
    assert (found.verdict, found.units) == (Sameness.EQUIVALENT, 20)


def test_what_both_have_learned_by_heart_is_the_same():
    fine = [2.0 * math.exp(-0.1 * step) for step in range(200)]
    coarse = [loss if loss > 1e-3 else 3e-4 for loss in fine]
    found = of_losses(coarse, fine)
    assert found is not None
    assert found.verdict == Sameness.EQUIVALENT


def test_a_loss_that_parts_in_the_second_half_is_another_one():
    fine = [2.0 - 0.005 * step + wiggle for step, wiggle in enumerate(WIGGLE_EQUIVALENCE)]
    coarse = [loss if step < 50 else loss + 0.1 for step, loss in enumerate(fine)]
    found = of_losses(coarse, fine)
    assert found is not None
    assert found.verdict == Sameness.DIFFERENT
    assert found.difference == pytest.approx(0.1)


def test_too_few_steps_and_nan_are_no_comparison():
    assert of_losses([1.0] * 20, [1.0] * 20) is None
    assert of_losses([math.nan] * 100, [1.0] * 100) is None
