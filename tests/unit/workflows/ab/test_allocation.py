"""What pairs tell of their spread and their cost."""

import random

import pytest
from build import a_trial

from torchstone.workflows.ab.pair import Pair, Spans
from torchstone.workflows.ab.timetable import pace_of, spread_of


def pairs(within, between, couples=40, number=200, seed=1, spans=Spans(1.0, 2.0, 1.8, 0.2)):  # noqa: B008  frozen
    dice = random.Random(seed)
    made = []
    for _ in range(number):
        centre = dice.gauss(0.0, between)
        made.append(Pair(tuple(dice.gauss(centre, within) for _ in range(couples)), (a_trial(), a_trial()), spans))
    return made


def test_the_spread_is_found_in_its_two_parts():
    found = spread_of(pairs(0.04, 0.02))
    assert found is not None
    assert found.between == pytest.approx(0.02**2, rel=0.3)
    assert 0.04**2 < found.within < 2.0 * 0.04**2, "of the middle half, which uses less of its turns"


def test_pairs_that_seem_equal_are_not_taken_for_it():
    found = spread_of(pairs(0.04, 0.0, number=4))
    assert found is not None
    assert found.between >= 0.01 * found.within


def test_too_few_pairs_or_turns_tell_nothing():
    assert spread_of(pairs(0.1, 0.1, number=2)) is None
    assert spread_of(pairs(0.1, 0.1, couples=2, number=6)) is None


def test_the_pace_is_that_of_the_last_pairs():
    slow, fast = pairs(0.1, 0.1, number=6), pairs(0.1, 0.1, number=5, spans=Spans(0.5, 0.4, 0.4, 0.1))
    found = pace_of([*slow, *fast])
    assert found is not None
    assert (found.warm_s, found.end_s) == (0.5, 0.1)
    assert found.couple_s == pytest.approx(0.01)
    assert pace_of([Pair((), (a_trial(), a_trial()))]) is None
