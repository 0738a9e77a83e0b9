"""The course of a contest, with pairs that are made up and a clock that is wound by hand."""

import math
import random
from typing import Any

import pytest
from build import a_case, a_trial

from torchstone.ab.contest import Bout, in_turns
from torchstone.ab.pair import Contender, Pair
from torchstone.ab.standing import Standing
from torchstone.terms.comparison import Judgement, Rules
from torchstone.terms.procedure import Procedure
from torchstone.terms.trial import Outcome, Status


class FakeRing:
    """Pairs of a given true ratio, a second each; templates take two seconds."""

    start_s = 2.0

    def __init__(self, ratio, spread=0.002, fails=lambda _: False):
        self.now_s = 0.0
        self.renewed = 0
        self._ratio, self._spread, self._fails = ratio, spread, fails
        self._dice = random.Random(4)
        self.plans: list[Any] = []

    def clock(self):
        return self.now_s

    def renew(self):
        self.renewed += 1
        self.now_s += self.start_s

    def take(self, sides, number, plan, dice, template):
        self.now_s += 1.0
        self.plans.append(plan)
        couples = plan.couples or 40
        if self._fails(number):
            bad = a_trial(outcome=Outcome(Status.CRASHED, "killed by SIGSEGV"), facts={"side": "B"})
            return Pair((), (a_trial(facts={"side": "A"}), bad))
        logs = tuple(math.log(self._ratio) + self._dice.gauss(0.0, self._spread) for _ in range(couples))
        turns = {"turn_time_s": [0.01] * couples}
        sides_of = [a_trial(steady=turns, facts={"side": side, "template": template}) for side in "AB"]
        return Pair(logs, (sides_of[0], sides_of[1]))


def bout(ring, budget_s=60.0, margin=0.02):
    kept: list[Any] = []
    told: list[Any] = []
    before, after = (Contender(label, a_case()) for label in ("before", "after"))
    fight = Bout(before, after, Rules(margin, 0.01, budget_s), ring, 0.0, told.append, kept.append, ring.clock)
    return fight.fight(), kept, told


def test_a_clear_difference_ends_early():
    ended, kept, told = bout(FakeRing(1.05))
    assert ended.comparison.verdict == Judgement.WORSE
    assert ended.stopped_because == "settled"
    assert ended.elapsed_s < 15.0
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
    ended, *_ = bout(FakeRing(1.0))
    assert ended.comparison.verdict == Judgement.SAME


def test_noise_ends_with_the_budget_and_templates_were_renewed(monkeypatch):
    monkeypatch.setattr(Standing, "pairs_to_settle", lambda _: 41)
    ring = FakeRing(1.01, spread=0.5)
    ended, *_ = bout(ring)
    assert ended.comparison.verdict == Judgement.UNCLEAR
    assert ended.stopped_because == "budget"
    assert 55.0 <= ended.elapsed_s <= 60.0
    assert ended.templates == ring.renewed == 6
    assert ended.comparison.trials_to_settle == 41
    assert {plan.patience_s for plan in ring.plans} == {120.0}, "whoever hangs does so for twice the budget at most"


def test_a_template_that_took_its_whole_share_to_start_is_used():
    ring = FakeRing(1.01, spread=0.5)
    ring.start_s = 40.0
    ended, *_ = bout(ring)
    assert [trial.facts["template"] for trial in ended.trials[::2]] == [1, *[2] * (ended.pairs - 1)]
    assert ended.templates == ring.renewed == 2


def test_a_side_that_fails_again_and_again_ends_it_and_is_named():
    ended, kept, _ = bout(FakeRing(1.0, fails=lambda number: number >= 2))
    assert ended.stopped_because == "failed"
    assert ended.comparison.verdict == Judgement.NOT_COMPARABLE
    assert ended.comparison.ratio is None
    assert ended.comparison.why == "after crashed: killed by SIGSEGV"
    assert len(kept) == 10


def test_a_side_that_fails_in_every_second_pair_has_failed():
    ended, *_ = bout(FakeRing(1.0, fails=lambda number: number % 2 == 1))
    assert (ended.stopped_because, ended.pairs) == ("failed", 6)
    assert ended.comparison.verdict == Judgement.NOT_COMPARABLE


def test_a_side_that_begins_to_fail_late_is_not_waited_for():
    ended, *_ = bout(FakeRing(1.01, spread=0.5, fails=lambda number: number >= 40))
    assert (ended.stopped_because, ended.pairs) == ("failed", 43)


def test_a_failure_now_and_then_only_leaves_its_pair_out():
    ended, *_ = bout(FakeRing(1.01, spread=0.5, fails=(3, 20, 40).__contains__))
    assert ended.stopped_because == "budget"
    assert ended.comparison.ratio is not None
    assert ended.comparison.ratio.trials <= ended.pairs - 3


def test_a_budget_too_short_still_takes_the_fewest_pairs():
    ring = FakeRing(1.0)
    ended, *_ = bout(ring, budget_s=1.0)
    assert ended.pairs == 6
    assert {plan.patience_s for plan in ring.plans} == {60.0}, "a turn may take longer than so short a budget"


def test_pairs_learn_how_many_turns_are_worth_it():
    ring = FakeRing(1.0, spread=0.02)
    bout(ring, margin=0.0001)
    assert len({plan.couples for plan in ring.plans}) > 1


@pytest.mark.parametrize(("given", "taken"), [(3.0, 0.5), (0.2, 0.2)])
def test_pairs_warm_up_shortly_and_without_gauges(given, taken):
    how = in_turns(Procedure(warmup_budget_s=given))
    assert how.warmup_budget_s == taken
    assert how.telemetry_period_s == 0.0
