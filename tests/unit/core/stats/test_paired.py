"""Cases compared by round; how often that is wrong: tests/statistics/test_paired.py."""

import pytest

from torchstone.core.stats.moderated import Spread, half_width
from torchstone.core.stats.paired import in_turn, prior_of, residual

DRIFT = {0: 0.0, 1: 0.3, 2: -0.2, 3: 0.5}


def shifted(by, noise=()):
    return {number: log + by + (noise[number] if noise else 0.0) for number, log in DRIFT.items()}


def half(found):
    low, high = found.interval(0.95)
    return (high - low) / 2.0


def test_what_hits_a_whole_round_drops_out():
    found = in_turn(shifted(0.1, (0.01, -0.01, 0.01, -0.01)), shifted(0.0))
    assert found is not None
    assert found.log == pytest.approx(0.1)
    assert half(found) < 0.03, "the rounds themselves differ by 0.7"
    assert found.candidate.trials == 4


def test_only_common_rounds_count_and_one_is_too_few():
    assert in_turn({0: 1.0, 1: 2.0}, {1: 1.0, 2: 5.0}) is None
    found = in_turn({0: 1.0, 1: 2.0, 7: 99.0}, {0: 0.0, 1: 1.0})
    assert found is not None
    assert (found.log, found.candidate.trials) == (1.0, 2)


def test_other_cases_of_the_run_tell_how_far_two_may_differ_by_chance():
    noise = (0.01, -0.01, 0.012, -0.008)
    cases = [shifted(0.1 * k, noise[k:] + noise[:k]) for k in range(4)]
    fortunate = [shifted(0.0), shifted(0.001), *cases]
    alone, beside = (in_turn(fortunate[0], fortunate[1], prior) for prior in (None, prior_of(fortunate)))
    assert alone is not None
    assert beside is not None
    assert half(alone) < 1e-6 < half(beside)
    moderated = half_width(Spread(0.0, 3), 4, prior_of(fortunate))
    assert half(beside) == pytest.approx(moderated, rel=0.01), "at 95 % that of figures"


def test_trials_of_one_template_share_something_of_it():
    pair = shifted(0.1, (0.01, -0.01, 0.01, -0.01)), shifted(0.0)
    shared, apart = (in_turn(*pair, None, dict(zip(range(4), of, strict=True))) for of in ("aaaa", "abcd"))
    assert shared is not None
    assert apart is not None
    assert shared.spread()[0] > apart.spread()[0]


def test_the_residual_of_a_layout_with_a_hole():
    whole = [shifted(0.0), shifted(1.0), shifted(2.0)]
    del whole[1][2]
    found = residual(whole)
    assert found is not None
    assert found.variance == pytest.approx(0.0, abs=1e-12)
    assert found.df == 11 - 3 - 4 + 1
    assert residual([{0: 1.0}, {1: 2.0}]) is None
