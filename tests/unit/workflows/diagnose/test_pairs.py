"""Pairs of short trials: the ratio, its coverage, and what happens when a side fails."""

import random

import pytest
from build import a_case, a_trial

from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.trial import Status
from torchstone.workflows.diagnose.live_comparer import FEWEST, MOST, PairedTrials

PRESENT, OTHER = a_case({"num_workers": 0}), a_case({"num_workers": 4})


class Trials:
    """Trials of 1 s; the other case is `times` as fast, and the machine drifts by `drift` a trial."""

    def __init__(self, times, *, spread=0.05, drift=0.0, seed=0, fails=False):
        self.times, self.spread, self.drift, self.fails = times, spread, drift, fails
        self.dice, self.now_s, self.taken, self.renewals = random.Random(seed), 0.0, [], 0

    def probe(self, case):
        self.now_s += 1.0
        self.taken.append(case.case_id)
        if self.fails and case == OTHER:
            return a_trial(status=Status.CRASHED, measurements=())
        step_s = 0.01 * (1.0 + self.drift) ** len(self.taken) * self.dice.lognormvariate(0.0, self.spread)
        return a_trial([step_s / (self.times if case == OTHER else 1.0)] * 5)

    def renew(self):
        self.renewals += 1

    def compared(self, budget_s=20.0):
        paired = PairedTrials(PRESENT, self.probe, self.renew, 0.02, seed=3, clock=lambda: self.now_s)
        return paired(OTHER, None, budget_s)


def test_twice_as_fast_is_better_and_said_with_its_interval():
    world = Trials(2.0)
    comparison, trials = world.compared()
    assert comparison.verdict == Judgement.BETTER
    assert comparison.ratio.low < 0.5 < comparison.ratio.high
    assert len(trials) == 2 * MOST, "as many as the budget allows, and no more"
    assert world.renewals == 1, "templates share their address layout"
    assert [t.facts.side for t in trials[:2]] == ["A", "B"]


def test_four_pairs_are_the_fewest():
    assert len(Trials(2.0).compared(budget_s=1.0)[1]) == 2 * FEWEST


def test_the_order_within_a_pair_is_drawn():
    world = Trials(1.0)
    world.compared()
    assert len(set(world.taken[::2])) == 2


def test_a_side_that_fails_ends_it_at_once():
    comparison, trials = Trials(1.0, fails=True).compared()
    assert comparison.verdict == Judgement.NOT_COMPARABLE
    assert comparison.why.values["status"] == "crashed"
    assert len(trials) == 2


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_intervals_hold_the_truth_and_equal_settings_are_rarely_told_apart(drift):
    wrong = covered = 0
    for seed in range(200):
        comparison, _ = Trials(1.0, drift=drift, seed=seed).compared()
        wrong += comparison.verdict in (Judgement.BETTER, Judgement.WORSE)
        covered += comparison.ratio.low <= 1.0 <= comparison.ratio.high
    assert wrong <= 6, "1 % is promised; of 200, 7 or more would come once in a thousand times"
    assert covered >= 194
