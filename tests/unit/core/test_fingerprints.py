"""When two fingerprints are equal."""

import math

import pytest
from build import a_trial

from torchstone.core.fingerprints import TOLERANCE, fingerprint_of, first_differing, furthest, repeats

NAN = math.nan


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ((2.3, 2.2), (2.3, 2.2), None),
        ((2.3, 2.2), (2.3, 2.2 + 0.9 * TOLERANCE * 2.3), None),
        ((2.3, 2.2), (2.3, 2.2 + 1.2 * TOLERANCE * 2.3), 2.2),
        ((1e-9, 1.0), (-1e-9, 1.0), None),
        ((0.0,), (0.0,), None),
        ((NAN, 2.2), (NAN, 2.2), None),
        ((2.3, NAN), (2.3, 2.2), NAN),
        ((math.inf,), (-math.inf,), math.inf),
        ((1.0, 2.0), (1.5, 3.0), 1.0),
        ((), (2.3,), None),
    ],
)
def test_entries_differ_by_more_than_a_thousandth_of_the_largest(one, other, first):
    found = first_differing(one, other)
    assert (found is None) == (first is None)
    if found is not None:
        assert found.one == pytest.approx(first, nan_ok=True)
        far = furthest(one, other)
        assert far is not None
        assert found.differ
        assert far.differ


def test_the_furthest_entries_are_those_of_the_largest_difference():
    far = furthest((1.0, 2.0, 4.0), (1.1, 2.5, 4.0))
    assert far is not None
    assert (far.one, far.other) == (2.0, 2.5)
    assert far.difference == pytest.approx(0.125)
    assert furthest((), ()) is None


def test_a_fingerprint_is_that_of_the_first_trial_that_has_one():
    without, having = a_trial(), a_trial(steady={"fingerprint": [2.3, 2.2]})
    assert fingerprint_of([without, having]) == (2.3, 2.2)
    assert fingerprint_of([without]) == ()


def test_equal_programs_repeat_themselves_only_where_they_share_a_seed():
    sides = [[a_trial(steady={"fingerprint": [2.3]}, facts={"seed": seed})] for seed in (1, 1, 2)]
    assert repeats(sides[0], sides[1])
    assert not repeats(sides[0], sides[2])
    assert repeats([a_trial(steady={"fingerprint": [2.3]})], [a_trial(steady={"fingerprint": [2.4]})]), "not its own"
    assert not repeats([*sides[0], a_trial(steady={"fingerprint": [2.4]}, facts={"seed": 1})], sides[1])
