"""Turns: as long as asked for, the same number of steps on both sides, in balanced random order."""

import os
import random

from build import a_case

from torchstone.ab.turns import (
    FEWEST_COUPLES,
    MOST_COUPLES,
    TurnPlan,
    cores_to_choose,
    couples_of,
    most_s,
    order,
    steps_of,
    word_for,
)
from torchstone.terms.message import Ready


def test_a_turn_is_whole_steps_of_the_slower_side():
    plan = TurnPlan(turn_s=0.01)
    assert steps_of(plan, Ready(0.001, 0, 1), Ready(0.002, 0, 1)) == 5
    assert steps_of(plan, Ready(0.5, 0, 1), Ready(0.4, 0, 1)) == 1


def test_a_pair_of_which_nothing_is_known_takes_about_a_second_of_turns():
    def couples(step_s):
        return couples_of(TurnPlan(), 1, Ready(step_s, 0, 1), Ready(step_s, 0, 1))

    assert (couples(0.01), couples(10.0), couples(1e-5)) == (50, FEWEST_COUPLES, MOST_COUPLES)
    assert couples_of(TurnPlan(couples=12), 1, Ready(10.0, 0, 1), Ready(10.0, 0, 1)) == 12


def test_with_loaders_turns_are_whole_on_both_sides_and_begin_with_what_lay_ready():
    a, b = Ready(0.02, 8, 4), Ready(0.02, 12, 6)
    assert steps_of(TurnPlan(turn_s=0.01), a, b) == 24
    assert word_for(24, a).lead_in == 8


def test_each_order_is_as_frequent_as_the_other_and_not_foreseeable():
    firsts = [list(order(20, random.Random(seed))) for seed in range(40)]
    assert all(sum(f) == 10 for f in firsts)
    assert all(f[n] != f[n + 1] for f in firsts for n in range(0, 20, 2))
    assert len({tuple(f) for f in firsts}) > 30


def test_both_turns_of_a_couple_share_cores_that_are_drawn(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1, 5}, raising=False)
    one, two, every = ({"threads": n} for n in (1, 2, 0))
    assert cores_to_choose(a_case(one), a_case(one)) == ([1, 3, 5], 1)
    assert cores_to_choose(a_case(two), a_case(two)) == ([1, 3, 5], 2)
    for a, b in ((every, every), (one, two), ({"threads": 3}, {"threads": 3}), ({**one, "feed": "loader"}, one)):
        assert cores_to_choose(a_case(a), a_case(b)) == ((), 0)


def test_a_turn_has_ten_times_what_it_should_take_and_a_minute_at_least():
    assert most_s(TurnPlan(), 0.01) == 60.0
    assert most_s(TurnPlan(), 30.0) == 300.0
    assert most_s(TurnPlan(patience_s=120.0)) == 120.0
