"""Turns: as long as asked for, the same number of steps on both sides, in balanced random order."""

import os
import random
from itertools import islice

import pytest
from build import a_case

from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import Ready
from torchstone.workflows.ab.interleaving import (
    Go,
    TurnPlan,
    cores_to_choose,
    go,
    most_s,
    order,
    turn_s_of,
    warm,
    word_for,
)


def known(plan=TurnPlan(), a=0.01, b=0.01, queues=(0, 0), turns=(1, 1)):  # noqa: B008  frozen
    return warm(plan, Ready(a, queues[0], turns[0]), Ready(b, queues[1], turns[1]), 1.0)


def test_a_turn_is_whole_steps_of_the_slower_side():
    plan = TurnPlan(turn_s=0.01)
    assert known(plan, 0.001, 0.002).steps == 5
    assert known(plan, 0.5, 0.4).steps == 1


def test_a_pair_that_nobody_plans_takes_about_a_second_of_turns():
    assert [go(TurnPlan(), known(a=s, b=s)).couples for s in (0.01, 10.0, 1e-5)] == [50, 8, 50]
    assert go(TurnPlan(couples=12), known(a=10.0, b=10.0)) == Go(12, 1)


def test_whoever_decides_is_asked():
    asked = []

    def decide(now):
        asked.append(now)
        return Go(3, now.least_steps)

    assert go(TurnPlan(couples=12, decide=decide), known()) == Go(3, 1)
    assert asked == [known()]


def test_with_loaders_turns_are_whole_on_both_sides_and_begin_with_what_lay_ready():
    both = known(TurnPlan(turn_s=0.01), 0.02, 0.02, (8, 12), (4, 6))
    assert (both.steps, both.least_steps, both.lead_in) == (24, 12, 12)
    assert both.couple_s(24) == pytest.approx(36 * 0.04)
    assert word_for(24, Ready(0.02, 8, 4)).lead_in == 8


def test_each_order_is_as_frequent_as_the_other_and_not_foreseeable():
    firsts = [list(islice(order(random.Random(seed)), 20)) for seed in range(40)]
    assert all(sum(f) == 10 for f in firsts)
    assert all(f[n] != f[n + 1] for f in firsts for n in range(0, 20, 2))
    assert len({tuple(f) for f in firsts}) > 30


def test_pairs_of_a_single_couple_are_balanced_two_by_two():
    firsts = [next(order(random.Random(0), number)) for number in range(60)]
    assert all(firsts[n] != firsts[n + 1] for n in range(0, 60, 2))
    assert 8 < sum(firsts[::2]) < 22, "which of two goes first is drawn"


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


def test_turns_on_an_accelerator_are_long_beside_what_it_takes_to_begin():
    cpu, cuda = a_case(), a_case(placement=Placement("cuda"))
    assert turn_s_of([cpu, cpu]) == TurnPlan().turn_s == 0.01
    assert turn_s_of([cuda, cuda]) == turn_s_of([cpu, cuda]) == 0.2
