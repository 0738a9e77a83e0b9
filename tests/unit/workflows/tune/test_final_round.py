from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from build import a_case, a_trial

from torchstone.core.schema.answer import Constraints, TuneSpec
from torchstone.core.schema.trial import Purpose, Status
from torchstone.execution.controller.active_run import ActiveRun, OutOfTime
from torchstone.execution.controller.session import Session
from torchstone.workflows.tune.answering import gain, ranked_cases, run_rounds
from torchstone.workflows.tune.space import TuneSpace

SPEC = TuneSpec("throughput", "grid", a_case(), {}, final_trials=3)


def timed(step_s, status=Status.OK, **changes):
    return a_trial([step_s] * 10, status=status, **changes)


class FakeRun(ActiveRun):
    def __init__(self):
        self.taken, self.added = [], set()

    def add(self, case):
        self.added.add(case.case_id)

    def take(self, case, number, purpose=Purpose.REPLICATE, how=None, *, host_profile=False):
        self.taken.append((case.case_id, number))
        return timed(0.01, case_id=case.case_id, number=number)


class Noisy(FakeRun):
    """Takes trials of 8 s; steps differ by 10 % from round to round, and no two cases do so alike."""

    def __init__(self, steps_s):
        super().__init__()
        self.steps_s = steps_s

    def take(self, case, number, purpose=Purpose.REPLICATE, how=None, *, host_profile=False):
        slower = 0.1 * ((number + list(self.steps_s).index(case.case_id)) % 2)
        step_s = self.steps_s[case.case_id] * (1.0 + slower)
        return timed(step_s, case_id=case.case_id, number=number, duration_s=8.0)


def two_cases():
    one = a_case()
    return one, msgspec.structs.replace(one, configuration={**one.configuration, "batch_size": 99})


def test_present_settings_of_another_effective_batch_are_no_answer():
    base = {"batch_size": 8, "grad_accumulation": 1, "feed": "resident"}
    limits = Constraints(effective_batch=32)
    spec = TuneSpec("throughput", "grid", a_case(base), {"batch_size": (8, 32)}, {"batch_size": 8}, constraints=limits)
    space = TuneSpace(spec)
    present, ruled = space.present(), space.case({"batch_size": 8})
    assert present is not None
    found = {case.case_id: [timed(step_s, case_id=case.case_id)] for case, step_s in ((present, 0.01), (ruled, 0.02))}
    assert ranked_cases(found, spec) == [ruled.case_id]


def test_every_round_has_every_case_once():
    cases, run = two_cases(), FakeRun()
    found = run_rounds(cases, SPEC, run, seed=0)
    assert [number for _, number in run.taken] == [0, 0, 1, 1, 2, 2]
    assert all({c for c, n in run.taken if n == number} == {case.case_id for case in cases} for number in range(3))
    assert [len(trials) for trials in found.values()] == [3, 3]


@pytest.mark.parametrize(
    ("next_s", "most_s", "rounds"),
    [(0.0101, 1e9, 8), (0.0101, 80.0, 5), (0.0101, 0.0, 3), (0.02, 1e9, 3)],
    ids=["not decided", "no longer than the search", "asked for", "decided"],
)
def test_more_rounds_are_taken_until_the_best_is_known(next_s, most_s, rounds):
    one, two = two_cases()
    run = Noisy({one.case_id: 0.01, two.case_id: next_s})
    found = run_rounds((one, two), SPEC, run, 0, (), most_s)
    assert [len(trials) for trials in found.values()] == [rounds, rounds]


def test_what_the_record_holds_is_not_taken_again():
    (one, two), run = two_cases(), FakeRun()
    recorded = [
        timed(0.02, case_id=one.case_id, number=0),
        timed(0.02, case_id=two.case_id, number=0, purpose=Purpose.PROBE),  # of the search: no replicate
    ]
    found = run_rounds((one, two), SPEC, run, 0, recorded)
    assert (one.case_id, 0) not in run.taken
    assert (two.case_id, 0) in run.taken
    assert found[one.case_id][0] is recorded[0]


def test_a_case_that_failed_once_or_missed_a_limit_cannot_win():
    found = {
        "fast": [timed(0.001), timed(0.001, Status.CRASHED)],
        "slow": [timed(0.01)] * 2,
        "slower": [timed(0.02)] * 2,
    }
    assert ranked_cases(found, SPEC) == ["slow", "slower"]
    limited = msgspec.structs.replace(SPEC, constraints=Constraints(max_latency_s=0.005))
    assert ranked_cases(found, limited) == []


def test_gain_is_the_ratio_of_rounds():
    estimate = gain([timed(0.010), timed(0.020)], [timed(0.020), timed(0.040)], SPEC)
    assert estimate is not None
    assert estimate.value == pytest.approx(2.0)  # the machine slowed down to half between the rounds, and it cancels
    assert estimate.low == pytest.approx(2.0)
    lone = gain([timed(0.010)], [timed(0.020)], SPEC)
    assert lone is not None
    assert (lone.low, lone.note) == (None, "one round: no interval")
    assert gain([timed(0.010)], [timed(0.020, Status.CRASHED)], SPEC) is None


class ShortOfTime(FakeRun):
    """Has time for so many trials."""

    def __init__(self, trials, within_s):
        super().__init__()
        self.left = trials
        self.session = cast("Session", SimpleNamespace(procedure=SimpleNamespace(within_s=within_s)))

    def take(self, case, number, purpose=Purpose.REPLICATE, how=None, *, host_profile=False):
        if not self.left:
            raise OutOfTime
        self.left -= 1
        return super().take(case, number, purpose, how, host_profile=host_profile)


def test_where_the_time_that_was_given_is_over_what_was_measured_is_the_answer():
    (best, other), run = two_cases(), ShortOfTime(1, within_s=70.0)
    found = run_rounds((best, other), SPEC, run, seed=0)
    assert run.taken == [(best.case_id, 0)], "the search's best is the first"
    assert ranked_cases(found, SPEC) == [best.case_id]


@pytest.mark.parametrize(("trials", "within_s"), [(0, 70.0), (1, None)])
def test_without_a_trial_or_a_time_for_the_whole_of_it_resume_goes_on(trials, within_s):
    with pytest.raises(OutOfTime):
        run_rounds(two_cases(), SPEC, ShortOfTime(trials, within_s), seed=0)
