"""More turns of a pair, or more pairs: by what they cost and what they tell."""

import random

from build import a_trial

from torchstone.ab.allocation import couples_for
from torchstone.ab.pair import Pair


def pairs(within, between, couples=40, seed=1):
    dice = random.Random(seed)
    made = []
    for _ in range(12):
        centre = dice.gauss(0.0, between)
        made.append(Pair(tuple(dice.gauss(centre, within) for _ in range(couples)), (a_trial(), a_trial())))
    return made


def best(of, start_s, couple_s):
    found = couples_for(of, start_s, couple_s)
    assert found is not None
    return found


def test_noisy_turns_want_more_of_them_and_lucky_processes_want_more_pairs():
    turns = best(pairs(within=0.1, between=0.001), 1.0, 0.02)
    processes = best(pairs(within=0.02, between=0.05), 1.0, 0.02)
    assert turns > 40 > processes


def test_a_cheap_start_means_more_pairs():
    noisy = pairs(within=0.05, between=0.01)
    assert best(noisy, 0.1, 0.02) < best(noisy, 2.0, 0.02)


def test_too_few_pairs_tell_nothing():
    assert couples_for(pairs(0.1, 0.1)[:2], 1.0, 0.02) is None
