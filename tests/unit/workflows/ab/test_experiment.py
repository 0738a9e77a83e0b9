"""The course of an experiment, with pairs that are made up and a clock that is wound by hand."""

import math
import random
from typing import Any

import msgspec
import pytest
from build import a_case, a_trial

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.comparison import Judgement, Rules
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Status
from torchstone.workflows.ab.experiment import Experiment, in_turns
from torchstone.workflows.ab.interleaving import Warm
from torchstone.workflows.ab.pair import Pair, Spans, Variant
from torchstone.workflows.ab.sequential_test import SequentialTest


class FakePool:
    """Pairs of a given true ratio on a clock that is wound by hand: a start, then turns of a step each.

    Two first steps, and one more of each side where they are short, go before a pair's turns; templates take two
    seconds. `left_out`: what a turn takes beside its step.
    """

    start_s = 2.0

    def __init__(self, ratio, spread=0.002, fails=lambda _: False, step_s=0.01, build_s=0.13, between=0.0):
        self.now_s = 0.0
        self.renewed = 0
        self._ratio, self._spread, self._fails, self._between = ratio, spread, fails, between
        self._step_s, self._build_s = step_s, build_s
        self._dice = random.Random(4)
        self.plans: list[Any] = []
        self.couples: list[int] = []
        self.threads: list[Any] = []

    def clock(self):
        return self.now_s

    def renew(self):
        self.renewed += 1
        self.now_s += self.start_s

    def take(self, sides, number, plan, dice, template):
        self.plans.append(plan)
        self.threads.append(sides[0].case.configuration.get("threads"))
        began_s, both_s = self.now_s, 2.0 * self._step_s
        self.now_s += 2.0 * self._build_s + both_s + (max(0.2, both_s) if self._step_s < 0.4 else 0.0)
        if self._fails(number):
            bad = a_trial(outcome=Outcome(Status.CRASHED, "killed by SIGSEGV"), facts={"side": "B"})
            return Pair((), (a_trial(facts={"side": "A"}), bad))
        warm_s, logs = self.now_s - began_s, list[float]()
        known = Warm(1, 1, both_s, 0, warm_s, warm_s)
        planned, centre = plan.decide(known), math.log(self._ratio) + self._dice.gauss(0.0, self._between)
        while len(logs) < planned.couples and not (logs and planned.until_s and self.now_s >= planned.until_s):
            self.now_s += both_s
            logs.append(centre + self._dice.gauss(0.0, self._spread))
            if len(logs) == 1:
                planned = plan.decide(msgspec.structs.replace(known, spent_s=self.now_s - began_s))
        self.couples.append(len(logs))
        turns_s, self.now_s = self.now_s - began_s - warm_s, self.now_s + 0.1
        turns = {"turn_time_s": [self._step_s] * len(logs)}
        facts = {"template": template, "threads_in_effect": 2}
        sides_of = [a_trial(steady=turns, facts={"side": side, **facts}) for side in "AB"]
        return Pair(tuple(logs), (sides_of[0], sides_of[1]), Spans(warm_s, turns_s, turns_s, 0.1))


def experiment(pool, budget_s=60.0, margin=0.02, strict=False, said=None):
    kept: list[Any] = []
    told: list[Any] = []
    before, after = (Variant(label, a_case()) for label in ("before", "after"))
    rules = Rules(margin, 0.01, budget_s)
    say = said.append if said is not None else lambda _: None
    whole = Experiment(
        before, after, rules, pool, 0.0, told.append, kept.append, pool.clock, strict=strict, say=say,
        try_one_thread=True,
    )  # fmt: skip
    return whole.run(), kept, told


def test_a_clear_difference_ends_early():
    ended, kept, told = experiment(FakePool(1.05))
    assert ended.comparison.verdict == Judgement.WORSE
    assert ended.stopped_because == "settled"
    assert ended.elapsed_s < 25.0
    assert len(kept) == 2 * ended.pairs == len(ended.trials)
    assert told[-1].pairs == ended.pairs
    ratio = ended.comparison.ratio
    assert ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 1.05 < ratio.high
    assert ratio.level == 0.99
    assert (ended.comparison.baseline.label, ended.comparison.candidate.label) == ("before", "after")


def test_equal_code_is_the_same():
    ended, *_ = experiment(FakePool(1.0))
    assert ended.comparison.verdict == Judgement.SAME


def test_noise_ends_with_the_budget_and_templates_were_renewed(monkeypatch):
    monkeypatch.setattr(SequentialTest, "pairs_to_settle", lambda _: 41)
    pool = FakePool(1.01, spread=0.5)
    ended, *_ = experiment(pool)
    assert ended.comparison.verdict == Judgement.UNCLEAR
    assert ended.stopped_because == "budget"
    assert 50.0 <= ended.elapsed_s <= 60.0
    assert ended.templates == pool.renewed == 3
    assert ended.comparison.trials_to_settle == 41
    own = [plan for plan, threads in zip(pool.plans, pool.threads, strict=True) if threads is None]
    assert {plan.patience_s for plan in own} == {120.0}, "whoever hangs does so for twice the budget at most"


def test_a_template_that_took_its_whole_share_to_start_is_used():
    pool = FakePool(1.01, spread=0.5)
    pool.start_s = 11.0
    ended, *_ = experiment(pool)
    assert ended.templates == pool.renewed == 2
    assert ended.elapsed_s <= 60.0


@pytest.mark.parametrize("step_s", [0.005, 0.028, 0.13, 0.5])
def test_most_of_the_time_is_measured(step_s):
    ended, *_ = experiment(FakePool(1.0, spread=0.1, between=0.003, step_s=step_s), margin=0.0)
    assert ended.stopped_because == "budget"
    assert ended.spent is not None
    assert ended.spent.measured_s / ended.elapsed_s >= 0.70
    assert ended.pairs >= 6


@pytest.mark.parametrize("step_s", [0.005, 0.13, 0.4, 0.9, 1.8])
@pytest.mark.parametrize("budget_s", [8.0, 12.0, 45.0, 60.0])
def test_the_time_that_was_given_is_kept(step_s, budget_s):
    said: list[str] = []
    ended, *_ = experiment(FakePool(1.0, spread=0.3, step_s=step_s), budget_s, strict=True, said=said)
    assert ended.elapsed_s <= 1.1 * budget_s + step_s
    if ended.pairs < 6:
        assert ended.comparison.verdict == Judgement.UNCLEAR
        assert ended.comparison.ratio is None
        assert ended.comparison.why is not None
        assert ended.comparison.why.id.partition(".")[0] in ("no_pair", "short", "few_pairs")
        assert ended.needed_s is None or "need --within" in said[0]
    assert len(said) <= 1


def test_what_six_pairs_take_is_said_and_is_enough():
    said: list[str] = []
    ended, *_ = experiment(FakePool(1.0, step_s=1.8), 30.0, strict=True, said=said)
    assert ended.pairs < 6
    assert ended.needed_s is not None
    assert f"--within {ended.needed_s:.0f}s" in said[0]
    assert f"--within {ended.needed_s:.0f}s is enough" in str(ended.comparison.why_text)
    longer, *_ = experiment(FakePool(1.0, step_s=1.8), ended.needed_s, strict=True)
    assert longer.pairs >= 6
    assert longer.comparison.ratio is not None


def test_without_a_limit_of_the_users_the_fewest_pairs_are_taken_and_their_time_is_said():
    said: list[str] = []
    pool = FakePool(1.0, spread=0.05, step_s=3.0)
    ended, *_ = experiment(pool, 60.0, said=said)
    assert ended.pairs == 6
    assert set(pool.couples) == {1}
    assert ended.elapsed_s > 60.0
    assert len(said) == 1
    assert "more than 60 s" in said[0]
    assert ended.comparison.ratio is not None


def test_turns_become_fewer_where_steps_are_long():
    said: list[str] = []
    pool = FakePool(1.0, step_s=1.2)
    ended, *_ = experiment(pool, 45.0, strict=True, said=said)
    assert ended.pairs >= 6
    assert max(pool.couples) < 4
    assert "turn" in said[0]


def test_what_is_unclear_with_all_threads_is_tried_with_one(monkeypatch):
    monkeypatch.setattr(SequentialTest, "pairs_to_settle", lambda _: None)
    pool = FakePool(1.0, spread=0.02, between=0.04)
    take = pool.take

    def calmer(sides, *about):
        pool._between = 0.001 if sides[0].case.configuration.get("threads") == 1 else 0.04
        return take(sides, *about)

    monkeypatch.setattr(pool, "take", calmer)
    ended, kept, _ = experiment(pool)
    other = ended.comparison.with_other_threads
    assert other is not None
    assert (other.threads, other.pairs) == (1, 3)
    assert other.pairs_needed >= 6
    assert 5.0 < other.within_s < 60.0
    assert pool.threads[-3:] == [1, 1, 1]
    assert len(kept) == 2 * ended.pairs, "they are no part of the comparison"
    assert ended.elapsed_s <= 60.0


def test_one_thread_that_would_not_settle_it_either_is_not_recommended(monkeypatch):
    monkeypatch.setattr(SequentialTest, "pairs_to_settle", lambda _: None)
    pool = FakePool(1.0, spread=0.02, between=0.3)
    ended, *_ = experiment(pool)
    assert 1 in pool.threads
    assert ended.comparison.with_other_threads is None


def test_a_side_that_fails_again_and_again_ends_it_and_is_named():
    ended, kept, _ = experiment(FakePool(1.0, fails=lambda number: number >= 2))
    assert ended.stopped_because == "failed"
    assert ended.comparison.verdict == Judgement.NOT_COMPARABLE
    assert ended.comparison.ratio is None
    values = {"side": "after", "status": "crashed", "message": "killed by SIGSEGV"}
    assert ended.comparison.why == Statement("side_failed", values)
    assert len(kept) == 10


def test_a_side_that_fails_in_every_second_pair_has_failed():
    ended, *_ = experiment(FakePool(1.0, fails=lambda number: number % 2 == 1))
    assert (ended.stopped_because, ended.pairs) == ("failed", 6)
    assert ended.comparison.verdict == Judgement.NOT_COMPARABLE


def test_a_side_that_begins_to_fail_late_is_not_waited_for():
    ended, *_ = experiment(FakePool(1.01, spread=0.5, fails=lambda number: number >= 12))
    assert (ended.stopped_because, ended.pairs) == ("failed", 15)


def test_a_failure_now_and_then_only_leaves_its_pair_out():
    ended, *_ = experiment(FakePool(1.01, spread=0.5, fails=(3, 9).__contains__))
    assert ended.stopped_because == "budget"
    assert ended.comparison.ratio is not None
    assert ended.comparison.ratio.trials <= ended.pairs - 2


def test_a_turn_may_take_longer_than_a_short_budget():
    pool = FakePool(1.0)
    experiment(pool, budget_s=1.0)
    assert {plan.patience_s for plan in pool.plans} == {60.0}


def test_pairs_learn_how_many_turns_are_worth_it():
    pool = FakePool(1.0, spread=0.02)
    experiment(pool, margin=0.0001)
    assert len(set(pool.couples)) > 1


@pytest.mark.parametrize(("given", "taken"), [(3.0, 0.1), (0.05, 0.05)])
def test_pairs_warm_up_shortly_and_without_gauges(given, taken):
    how = in_turns(Procedure(warmup_budget_s=given))
    assert how.warmup_budget_s == taken
    assert how.telemetry_period_s == 0.0


@pytest.mark.parametrize(("device", "turn_s"), [("cpu", 0.01), ("cuda", 0.2)])
def test_turns_are_as_long_as_the_device_needs(device, turn_s):
    pool = FakePool(1.05)
    side = Variant("a side", a_case(placement=Placement(device)))
    Experiment(side, side, Rules(0.02, 0.01, 20.0), pool, 0.0, clock=pool.clock).run()
    assert {plan.turn_s for plan in pool.plans} == {turn_s}
