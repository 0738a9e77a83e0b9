"""What the ranks measured, together in rank 0."""

import math

import pytest

from torchstone.core.schema.codec import encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Measured
from torchstone.core.schema.trial import Measurement, Stage, Status
from torchstone.execution.timing.stopping import StopReason, UntilQuiet, WarmUp
from torchstone.execution.worker.collector import outcome_by_loss
from torchstone.execution.worker.ranks.group import ALONE, AgreedRule, AgreedWarmUp, Group, merge_ranks


def part(threads, cores, step_s):
    values = {"step_time_s": step_s, "items": 4.0, "window_time_s": step_s}
    taken = tuple(Measurement(name, Stage.STEADY, (value,), "throughput") for name, value in values.items())
    return Measured(taken, Facts("train", threads_in_effect=threads, cores=cores), {"throughput": (1.0, 2.0)})


def test_each_value_has_its_rank_and_what_differs_is_a_fact_of_all():
    found = merge_ranks([part(2, "0-1", 0.01), part(1, "2", 0.02)])
    assert [(m.rank, m.values[0]) for m in found.measurements if m.metric == "step_time_s"] == [(0, 0.01), (1, 0.02)]
    assert found.facts == Facts(
        "train", threads_in_effect=2, threads_by_rank=(2, 1), cores_by_rank=("0-1", "2"),
        items_per_s_by_rank=(400.0, 200.0),
    )  # fmt: skip
    assert found.windows_s == {"throughput": (1.0, 2.0)}


class Gathering(Group):
    """The second of two ranks, whose measurements have arrived."""

    def __init__(self, others):
        self.others = others

    def _gathered(self, data):
        return [data, *map(encode, self.others)]


def losing(*losses):
    return Measured((Measurement("loss", Stage.STEADY, losses),), Facts(threads_in_effect=1, cores="0"), {})


def test_a_loss_that_is_no_number_survives_the_way_to_rank_0_and_is_told_with_its_rank():
    found = Gathering([losing(1.0, math.nan, math.nan)]).joined(losing(1.0, 0.5, math.inf))
    assert found is not None
    assert [m.values[1] for m in found.measurements] == [0.5, pytest.approx(math.nan, nan_ok=True)]
    assert outcome_by_loss(found.measurements).message == "the loss is nan from step 2 of 3, of 2 ranks first in 1"
    both = merge_ranks([losing(1.0, math.nan), losing(1.0, math.nan)])
    assert outcome_by_loss(both.measurements).message == "the loss is nan from step 2 of 2"
    assert outcome_by_loss(merge_ranks([losing(1.0), losing(2.0)]).measurements).status == Status.OK


def test_one_process_agrees_with_itself():
    measured = part(1, "0", 0.01)
    assert ALONE.joined(measured) is measured
    assert ALONE.agreed(3.0) == 3.0


class Wire:
    """What rank 0 said, in order, for the others to hear."""

    def __init__(self):
        self.said = []

    def speak(self, value):
        self.said.append(value)
        return value

    def listener(self):
        words = iter(self.said)
        return lambda _own: next(words)


def ended_at(rule, step_s, most=100_000):
    for steps in range(1, most):
        reason = rule.consider(steps, steps * step_s, lambda n: [step_s] * n)
        if reason is not None:
            return steps, reason
    raise AssertionError("it did not end")


@pytest.mark.parametrize("turn", [1, 4])
@pytest.mark.parametrize("own_s", [0.001, 0.03])
def test_a_rank_with_another_clock_stops_with_rank_0(turn, own_s):
    wire = Wire()
    first = AgreedRule(UntilQuiet(None, 1.0, 5, turn=turn), wire.speak, 1.0, 0.01, turn)
    other = AgreedRule(UntilQuiet(None, 1.0, 5, turn=turn), wire.listener(), 1.0, 0.01, turn)
    steps, reason = ended_at(first, 0.01)
    assert ended_at(other, own_s) == (steps, reason)
    assert reason == StopReason.BUDGET_SPENT
    assert steps % turn == 0
    assert 100 <= steps <= 108  # the budget, and at most a look beyond
    assert len(wire.said) < 60


def test_steps_that_got_slower_end_the_window_near_its_budget():
    steps, _ = ended_at(AgreedRule(UntilQuiet(None, 1.0, 5), float, 1.0, 0.01), 0.05)
    assert steps * 0.05 <= 1.3


def test_the_warm_up_goes_on_as_rank_0_says():
    wire = Wire()
    first = AgreedWarmUp(WarmUp(3, 10.0), wire.speak)
    goes = [first.goes_on(count, [0.01] * count, 0.1 * count) for count in range(30)]
    other = AgreedWarmUp(WarmUp(0, 0.0), wire.listener())
    assert [other.goes_on(count, [], 0.0) for count in range(30)] == goes
    assert not all(goes)
    assert first.settled in (True, False)
