"""All ranks stop at the same step, though their clocks differ: rank 0 decides."""

import pytest

from torchstone.execution.timing.stopping import Reason, UntilQuiet, WarmUp
from torchstone.execution.worker.ranks.agreed import AgreedRule, AgreedWarmUp


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
    assert reason == Reason.BUDGET_SPENT
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
