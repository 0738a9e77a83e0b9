"""What a loss does, on curves that are drawn by hand."""

import math

import pytest

from torchstone.core.stats.stability import Behaviour, behaviour, has_diverged, spikes

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
