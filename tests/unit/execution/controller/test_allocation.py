"""How long windows should be, where the variances are known."""

import random

import pytest
from build import a_trial

from torchstone.execution.controller.session import UNKNOWN_S, cost_of, window_s


def trials(between, within, start_s, count=40, steps=100):
    """Trials of steps of 10 ms, that differ by so much between processes and by so much from step to step."""
    dice = random.Random(1)
    made = []
    for _ in range(count):
        pace = 0.01 * (1.0 + dice.gauss(0.0, between))
        laps = [pace * (1.0 + dice.gauss(0.0, within)) for _ in range(steps)]
        made.append(a_trial(laps, duration_s=start_s + sum(laps)))
    return made


def test_what_a_trial_cost():
    cost = cost_of(a_trial([0.1] * 10, duration_s=3.0))
    assert cost is not None
    assert cost.start_s == pytest.approx(2.0)
    assert cost.windows_s == pytest.approx(1.0)
    assert cost.windows == 1


def test_nothing_is_known_of_the_first():
    assert window_s([], 5.0) == UNKNOWN_S
    assert window_s(trials(0.05, 0.05, 1.0, count=2), 5.0) == UNKNOWN_S
    assert window_s([], 0.2) == 0.2, "no longer than was asked for"


def test_processes_that_differ_much_get_short_windows_and_steps_that_do_get_long_ones():
    short = window_s(trials(0.10, 0.02, 1.0), 5.0)
    long = window_s(trials(0.005, 0.30, 1.0), 5.0)
    assert short == pytest.approx(0.3)
    assert long > 1.0


def test_a_dearer_start_wants_longer_windows():
    # the root of cost times variances: 0.05² a step, 100 steps a second; sqrt(start_s × 2.5e-5 / 1e-4)
    assert window_s(trials(0.01, 0.05, 16.0, count=400), 5.0) == pytest.approx(2.0, rel=0.35)
    assert window_s(trials(0.01, 0.05, 4.0, count=400), 5.0) == pytest.approx(1.0, rel=0.35)
