"""What-ifs: in which order they are tried, what one short trial may decide, what is combined, and what is not tried."""

import msgspec
import pytest
from build import a_case, a_trial
from evidences import SETTINGS

from torchstone.analysis.advice.causes import ranked_causes
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.comparison import Comparison, Judgement, Side, judge
from torchstone.core.schema.diagnosis import BROKEN_LOSS, SAME_LOSS, Cause, CauseKind, CodePlace, TriedRemedy, WhatIf
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Status
from torchstone.report.documents.diagnosis import gain_words
from torchstone.workflows.diagnose.target import RemedyTrials, effects_of, gain_of

CASE = a_case({**SETTINGS, "feed": "loader"})


class World:
    """A machine on which settings have known rates. A trial takes 1 s, an experiment 15 s."""

    def __init__(self, rates, *, spread=0.01, fails=()):
        self.rates, self.spread, self.fails = rates, spread, fails
        self.now_s, self.compared, self.probed = 0.0, [], []

    def rate(self, case, heap=None):
        """Times the present rate."""
        found = 1.0
        for axis, value in {**case.configuration, "heap": heap}.items():
            found *= self.rates.get(f"{axis}={str(value).lower() if isinstance(value, bool) else value}", 1.0)
        return found

    def probe(self, case):
        self.now_s += 1.0
        self.probed.append(case.case_id)
        if any(case.configuration.get(axis) == value for axis, value in self.fails):
            return a_trial(status=Status.OUT_OF_MEMORY, measurements=())
        return a_trial([0.01 / self.rate(case)] * 10)

    def compare_live(self, case, heap, budget_s):
        self.now_s += 15.0
        self.compared.append((dict(case.configuration), heap, budget_s))
        ratio = 1.0 / self.rate(case, heap)
        low, high = ratio * (1 - self.spread), ratio * (1 + self.spread)
        verdict = judge(low, high, 0.02, higher_is_better=False)
        found = Estimate(ratio, low, high, 0.99, "ratio", "test", 6, 6)
        sides = Side("a", "", "1"), Side("b", "", "2")
        trials = [a_trial(facts={"side": side}, steady={"peak_rss_bytes": [1e9 * n]}) for n, side in enumerate("AB", 1)]
        return Comparison(*sides, "step_time_mean", found, verdict, 0.02), trials

    def trying(self, budget_s=60.0):
        return RemedyTrials(CASE, self.probe, self.compare_live, budget_s, lambda _: None, clock=lambda: self.now_s)


def a_cause(name, *what_ifs, share=0.5, **changes):
    return Cause(name, CauseKind.IO, Statement(name), share, (), what_ifs=what_ifs, **changes)


def what_if(**settings):
    return WhatIf(settings)


LOADER = a_cause("loader", WhatIf({"feed": "resident"}, ceiling=True), what_if(num_workers=2), what_if(num_workers=4))
PRECISION = a_cause("precision", what_if(precision="bf16"), share=0.3)


def test_the_best_value_of_an_axis_is_fought_and_the_ceiling_after_what_can_be_taken():
    world = World({"num_workers=2": 1.5, "num_workers=4": 2.0, "feed=resident": 4.0, "precision=bf16": 1.3})
    tried = {one.what_if.name: one for one in world.trying(budget_s=90).all([LOADER, PRECISION])}
    assert [c["num_workers"] for c, _, _ in world.compared] == [4, 0, 0]
    assert world.compared[1][0]["feed"] == "resident"
    assert tried["num_workers=4"].helps
    assert tried["num_workers=4"].gain.value == pytest.approx(2.0)
    assert tried["num_workers=2"].gain is None
    assert tried["num_workers=2"].message.id == "less_than_another_value"
    assert tried["num_workers=2"].first_look == pytest.approx(1.5)


def test_what_is_much_slower_in_a_first_look_is_not_fought():
    world = World({"precision=bf16": 0.4})
    (one,) = world.trying().all([PRECISION])
    assert one.gain is None
    assert one.message.id == "slower_at_first_look"
    assert one.message.values == pytest.approx({"times": 0.4})
    assert not world.compared


def test_what_fails_says_how():
    world = World({}, fails=[("precision", "bf16")])
    (one,) = world.trying().all([PRECISION])
    assert (one.message.id, one.message.values["status"]) == ("ended", "out_of_memory")


def test_nothing_is_tried_without_a_budget():
    world = World({})
    spent = Statement("budget_spent", {"budget_s": 0.0})
    assert all(one.message == spent for one in world.trying(0.0).all([LOADER]))
    assert not world.probed


@pytest.mark.parametrize("budget_s", [20.0, 30.0, 60.0, 90.0])
def test_what_is_begun_ends_in_time_but_for_the_first_experiment(budget_s):
    world = World({"num_workers=4": 2.0, "precision=bf16": 1.5, "feed=resident": 3.0, "optimizer=sgd": 1.2})
    trying = world.trying(budget_s)
    tried = trying.all([LOADER, PRECISION, a_cause("optimizer", what_if(optimizer="sgd"))])
    assert trying.combined(tried) is not None
    assert tried[1].helps or tried[2].helps, "something is measured"
    assert world.now_s <= max(budget_s, 10.0 + 15.0)
    settings = [{axis: c[axis] for axis in ("num_workers", "precision")} for c, _, _ in world.compared]
    assert settings[0] == {"num_workers": 4, "precision": "fp32"}
    assert ({"num_workers": 4, "precision": "bf16"} in settings) == (budget_s == 90.0), "the time of all is kept"


def test_compiling_needs_a_larger_budget():
    world = World({})
    (one,) = world.trying().all([a_cause("computing", what_if(compile="default"))])
    assert one.message == Statement("compiling_takes_long", {"budget_s": 120.0})
    assert World({"compile=default": 1.4}).trying(150).all([a_cause("c", what_if(compile="default"))])[0].helps


def test_what_the_case_has_already_or_the_engine_lacks_is_not_asked():
    world = World({})
    assert world.trying().all([a_cause("x", what_if(precision="fp32"), what_if(new_tokens=8))]) == []


def test_all_that_helped_is_measured_once_more_together():
    world = World({"num_workers=4": 2.0, "precision=bf16": 1.5, "feed=resident": 3.0})
    trying = world.trying(120)
    together = trying.combined(trying.all([LOADER, PRECISION]))
    assert dict(together.what_if.settings) == {"num_workers": 4, "precision": "bf16"}, "no ceiling is among them"
    assert together.gain.value == pytest.approx(3.0)
    assert len(world.compared) == 4


def test_one_that_helped_alone_is_not_measured_twice():
    world = World({"precision=bf16": 1.5})
    trying = world.trying()
    tried = trying.all([PRECISION])
    assert trying.combined(tried) is tried[0]
    assert trying.combined([]) is None


def test_where_both_together_do_not_help_the_better_one_is_taken():
    world = World({"num_workers=4": 2.0, "precision=bf16": 1.5, "feed=resident": 3.0})
    trying = world.trying(120)
    tried = trying.all([LOADER, PRECISION])
    world.rates["precision=bf16"] = 0.4
    assert dict(trying.combined(tried).what_if.settings) == {"num_workers": 4}


def test_where_both_together_gain_less_than_the_better_one_that_is_taken():
    world = World({"num_workers=4": 2.0, "precision=bf16": 1.5, "feed=resident": 3.0})
    trying = world.trying(120)
    tried = trying.all([LOADER, PRECISION])
    world.rates["precision=bf16"] = 0.8  # beside more workers
    assert dict(trying.combined(tried).what_if.settings) == {"num_workers": 4}


@pytest.mark.parametrize(
    ("low", "loss", "helps"),
    [(1.02, SAME_LOSS, True), (0.99, SAME_LOSS, False), (1.02, BROKEN_LOSS, False)],
)
def test_what_is_offered_is_faster_by_all_of_its_interval_and_computes_numbers(low, loss, helps):
    gain = Estimate(1.05, low, 1.1, 0.95, "ratio", "", 6, 6)
    tried = TriedRemedy("precision", what_if(precision="bf16"), Judgement.BETTER, gain, loss=Statement(loss))
    assert tried.helps is helps
    assert World({}).trying().combined([tried]) == (tried if helps else None)
    assert ("not certain" in gain_words(tried)) is (low < 1.0)


def test_a_heap_goes_to_the_contest_unseen():
    world = World({"heap=fixed": 1.4})
    cause = a_cause("thrashing", WhatIf({}, heap="fixed"))
    (one,) = world.trying().all([cause])
    assert one.helps
    assert world.compared[0][1] == "fixed"
    assert one.what_if.name == "heap=fixed"


def test_a_cause_whose_remedy_gains_nothing_falls_behind():
    other = a_cause("other", share=0.3)
    refuted = TriedRemedy("loader", what_if(num_workers=4), gain=Estimate(1.01, 1.0, 1.02, 0.99, "ratio", "", 6, 6))
    assert [c.id for c in ranked_causes([LOADER, other], [refuted])] == ["other", "loader"]
    slower = TriedRemedy("loader", what_if(num_workers=4), first_look=0.5)
    assert [c.id for c in ranked_causes([LOADER, other], [slower])] == ["other", "loader"]
    assert [c.id for c in ranked_causes([LOADER, other], [])] == ["loader", "other"]
    seen = msgspec.structs.replace(LOADER, where=(CodePlace("train.py", 22, "x = row()", 0.4),))
    assert [c.id for c in ranked_causes([seen, other], [slower])] == ["loader", "other"], "its lines take the time"
    ceiling = TriedRemedy("loader", WhatIf({"feed": "resident"}, ceiling=True), first_look=1.0)
    assert [c.id for c in ranked_causes([seen, other], [ceiling])] == ["other", "loader"]
    sound = a_cause("computing", share=0.9, sound=True)
    assert [c.id for c in ranked_causes([LOADER, sound], [slower])] == ["computing", "loader"], "nothing is wrong, then"
    assert [c.id for c in ranked_causes([LOADER, sound], [])] == ["loader", "computing"]


def test_a_stated_gain_is_wider_than_its_contest():
    gain = gain_of(Estimate(0.5, 0.49, 0.51, 0.99, "ratio", "", 6, 6))
    assert gain.value == pytest.approx(2.0)
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < 1 / 0.51 < 1 / 0.49 < gain.high
    assert gain.high / gain.low < 1.15
    assert gain.level == 0.95, "what is added for another occasion has the width of 95 %"


@pytest.mark.parametrize(
    ("settings", "prints", "said"),
    [
        ({"num_workers": 4}, ([2.3, 2.2], [2.3, 2.2]), "loss_same"),
        ({"precision": "bf16"}, ([2.0, 2.0], [2.01, 2.02]), "loss_apart"),
        ({"batch_size": 64}, ([2.0], [2.5]), "loss_of_another_result"),
        ({"precision": "bf16"}, ([2.0], [float("nan")]), "loss_broken"),
        ({"batch_size": 64}, ([2.0], [float("inf")]), "loss_broken"),
        ({"precision": "bf16"}, ([float("nan")], [2.0]), "loss_broken_before"),
        ({"feed": "resident"}, ([2.0], [2.5]), "loss_of_other_batches"),
    ],
)
def test_what_is_computed_is_compared_by_its_fingerprint(settings, prints, said):
    trials = [
        a_trial(facts={"side": side}, steady={"fingerprint": values, "peak_rss_bytes": [peak]})
        for side, values, peak in zip("AB", prints, (1e9, 1.5e9), strict=True)
    ]
    memory, ratio, loss = effects_of(trials, settings, "cpu")
    assert (memory, ratio) == (1.5e9, 1.5)
    assert loss is not None
    assert loss.id == said
    if said == "loss_apart":
        assert loss.values == {"share": pytest.approx(0.01), "steps": 2}


def test_on_a_card_the_hosts_memory_is_no_peak():
    trials = [a_trial(facts={"side": side}, steady={"peak_rss_bytes": [1e9 * n]}) for n, side in enumerate("AB", 1)]
    assert effects_of(trials, {"num_workers": 4}, "cuda")[:2] == (None, None)


def test_no_first_look_is_begun_that_would_outlast_the_budget():

    class Slow(World):
        """A process of other people's libraries takes ten seconds to start."""

        def probe(self, case):
            self.now_s += 9.0
            return super().probe(case)

    world = Slow({"num_workers=2": 2.0, "num_workers=4": 2.0})
    tried = world.trying(budget_s=30.0).all([a_cause("loader", what_if(num_workers=2), what_if(num_workers=4))])
    assert len(world.probed) == 2
    assert tried[1].message == Statement("budget_spent", {"budget_s": 30.0})
