"""More turns of a pair, or more pairs: by what they cost and what they tell."""

import random

from tests.build import a_trial
from torchstone.ab.allocation import FEWEST_COUPLES, MOST_COUPLES, couples_for, first_couples
from torchstone.ab.pair import Pair


def pairs(within, between, couples=40, seed=1):
    dice = random.Random(seed)
    made = []
    for _ in range(12):
        centre = dice.gauss(0.0, between)
        made.append(Pair(tuple(dice.gauss(centre, within) for _ in range(couples)), (a_trial(), a_trial())))
    return made


def test_at_first_a_second_of_turns():
    assert first_couples(0.01) == 50
    assert first_couples(10.0) == FEWEST_COUPLES
    assert first_couples(1e-5) == MOST_COUPLES


def test_noisy_turns_want_more_of_them_and_lucky_processes_want_more_pairs():
    turns = couples_for(pairs(within=0.1, between=0.001), 1.0, 0.02)
    processes = couples_for(pairs(within=0.02, between=0.05), 1.0, 0.02)
    assert turns > 40 > processes


def test_a_cheap_start_means_more_pairs():
    noisy = pairs(within=0.05, between=0.01)
    assert couples_for(noisy, 0.1, 0.02) < couples_for(noisy, 2.0, 0.02)


def test_too_few_pairs_tell_nothing():
    assert couples_for(pairs(0.1, 0.1)[:2], 1.0, 0.02) == first_couples(0.01)
