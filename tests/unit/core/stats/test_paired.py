"""Cases compared by round; how often that is wrong: tests/statistics/test_paired.py."""

import pytest

from torchstone.core.stats.paired import contrast, residual

DRIFT = {0: 0.0, 1: 0.3, 2: -0.2, 3: 0.5}


def shifted(by, noise=()):
    return {number: log + by + (noise[number] if noise else 0.0) for number, log in DRIFT.items()}


def test_what_hits_a_whole_round_drops_out():
    found = contrast(shifted(0.1, (0.01, -0.01, 0.01, -0.01)), shifted(0.0))
    assert found is not None
    assert found.log == pytest.approx(0.1)
    assert found.half < 0.03, "the rounds themselves differ by 0.7"
    assert found.rounds == 4


def test_only_common_rounds_count_and_one_is_too_few():
    assert contrast({0: 1.0, 1: 2.0}, {1: 1.0, 2: 5.0}) is None
    found = contrast({0: 1.0, 1: 2.0, 7: 99.0}, {0: 0.0, 1: 1.0})
    assert found is not None
    assert (found.log, found.rounds) == (1.0, 2)


def test_other_cases_of_the_run_tell_how_far_two_may_differ_by_chance():
    noise = (0.01, -0.01, 0.012, -0.008)
    cases = [shifted(0.1 * k, noise[k:] + noise[:k]) for k in range(4)]
    fortunate = [shifted(0.0), shifted(0.001), *cases]
    alone, beside = contrast(fortunate[0], fortunate[1]), contrast(fortunate[0], fortunate[1], fortunate)
    assert alone is not None
    assert beside is not None
    assert alone.half < 1e-6 < beside.half


def test_the_residual_of_a_layout_with_a_hole():
    whole = [shifted(0.0), shifted(1.0), shifted(2.0)]
    del whole[1][2]
    found = residual(whole)
    assert found is not None
    assert found.variance == pytest.approx(0.0, abs=1e-12)
    assert found.df == 11 - 3 - 4 + 1
    assert residual([{0: 1.0}, {1: 2.0}]) is None
