"""What equal processes and an A/A test say of a machine."""

import math

import msgspec
import pytest
from build import a_machine, a_trial

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.comparison import Comparison, Judgement, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.trial import Status
from torchstone.execution.controller import device_lock
from torchstone.execution.controller.device_lock import WhenBusy
from torchstone.workflows.ab.experiment import ExperimentResult
from torchstone.workflows.machine_check import examination
from torchstone.workflows.machine_check.conditions import Fitness


def aa_test(low, high, elapsed_s):
    sides = (Side("A", "", "c"), Side("A again", "", "c"))
    ratio = None if low is None else Estimate(math.sqrt(low * high), low, high, 0.99, "ratio", "told", 10, 100)
    return ExperimentResult(
        Comparison(*sides, "step_time_mean", ratio, Judgement.UNCLEAR, 1e-6), (), 10, 2, elapsed_s, "budget"
    )


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [(60.0, 0.02 * (1 + 1.645 / 2.576)), (15.0, 0.01 * (1 + 1.645 / 2.576)), (240.0, 0.04 * (1 + 1.645 / 2.576))],
)
def test_what_a_minute_settles_follows_from_the_width_and_the_root_of_the_time(elapsed_s, expected):
    """Of an interval of ±2 %: what took longer than a minute to get so narrow is wider after one."""
    found = examination.settled_in_a_minute(aa_test(math.exp(-0.02), math.exp(0.02), elapsed_s))
    assert found == pytest.approx(math.expm1(expected))


def test_a_contest_that_came_to_no_end_settles_nothing():
    assert examination.settled_in_a_minute(aa_test(None, None, 30.0)) is None


def test_the_spread_between_processes_is_not_that_of_their_steps():
    trials = [a_trial([step, 1.01 * step, 0.99 * step] * 5) for step in (0.010, 0.012, 0.014, 0.011)]
    seen = {condition.name: condition for condition in examination._of_trials(trials)}
    assert seen["spread of steps"].value == pytest.approx(1.4826 * 0.01, rel=0.02)
    assert seen["spread of processes"].value == pytest.approx(0.145, abs=0.01)
    assert seen["spread of steps"].fitness == Fitness.FIT
    assert seen["spread of processes"].fitness == Fitness.NOISY


def test_a_machine_on_which_a_small_training_does_not_run_is_unfit():
    ended = a_trial([], status=Status.CRASHED)
    ended = msgspec.structs.replace(ended, outcome=msgspec.structs.replace(ended.outcome, message="no threads"))
    (only,) = examination._of_trials([ended, ended])
    assert only.fitness == Fitness.UNFIT
    assert only.seen == (Statement("training_failed", {"message": "no threads"}),)


class AtRest:
    """A session that knows its machine, and must not be asked for a trial."""

    def __init__(self, *_):
        self.launcher = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def inspect(self):
        device = DeviceInfo("cpu", "cpu", "AMD", 0, "a processor")
        return a_machine(devices=(device,)), Inspected((device,), {}, {})


def test_another_torchstone_is_left_in_peace(monkeypatch, tmp_path):
    monkeypatch.setattr(examination, "Session", AtRest)
    monkeypatch.setattr(examination, "compare_live", None)
    monkeypatch.setattr(examination, "_SPIN_S", 0.01)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where locks lie
    with device_lock.held([Placement("cpu")], a_machine(), "somebody's run", WhenBusy("refuse")):
        found = examination.examine("cpu", tmp_path, quick=False, tell=lambda _: None)
    seen = {condition.name: condition for condition in found.conditions}
    assert found.verdict == Fitness.UNFIT
    assert "somebody's run" in str(seen["other torchstones"].seen[0].values["word"])
    assert {"other processes", "interruptions", "disk", "clock"} <= set(seen)
    assert not {"spread of steps", "A/A test"} & set(seen)
    assert found.aa is None
