"""Verdicts on differences whose verdict is plain."""

import math

import pytest

from torchstone.core.stats.equivalence import Sameness, of_losses, tost

WIGGLE = [0.1 * (-1) ** step for step in range(100)]


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
    found = tost([centre + wiggle for wiggle in WIGGLE[:20]], 0.4)
    assert found is not None
    assert found.verdict == verdict
    assert found.difference == pytest.approx(centre)
    assert found.low < found.difference < found.high
    assert found.units == 20


def test_noise_that_hides_the_margin_leaves_it_unclear():
    found = tost([3.0 * wiggle for wiggle in WIGGLE[:6]], 0.1)
    assert found is not None
    assert found.verdict == Sameness.UNCLEAR
    assert tost(WIGGLE[:5], 0.1) is None


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
    fine = [2.0 - 0.005 * step + wiggle for step, wiggle in enumerate(WIGGLE)]
    coarse = [loss if step < 50 else loss + 0.1 for step, loss in enumerate(fine)]
    found = of_losses(coarse, fine)
    assert found is not None
    assert found.verdict == Sameness.DIFFERENT
    assert found.difference == pytest.approx(0.1)


def test_too_few_steps_and_nan_are_no_comparison():
    assert of_losses([1.0] * 20, [1.0] * 20) is None
    assert of_losses([math.nan] * 100, [1.0] * 100) is None
