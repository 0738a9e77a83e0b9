"""Segments: the parts of a step sum to the step, on a device that runs behind the host, too."""

import pytest
from fakes import FakeClock, FakeQueue

from torchstone.core.schema.metric import REST
from torchstone.execution.timing.segments import Segments


def test_phases_sum_to_the_step():
    clock = FakeClock()
    queue = FakeQueue(clock)
    segments = Segments(queue.stopwatch())
    segments.start()
    for n in range(3):
        clock.sleep(0.005)
        segments.cut("data")
        queue.issue(0.020)
        segments.cut("forward")
        queue.issue(0.030 + n / 1000)
        segments.cut("backward")
        clock.sleep(0.001)
        segments.cut(REST)
        segments.end_step()
    queue.issue(1.0)
    segments.cut("after the loop")
    steps = segments.finish()
    assert len(steps.steps_s) == 3
    for n, step_s in enumerate(steps.steps_s):
        assert sum(phase[n] for phase in steps.phases_s.values()) == pytest.approx(step_s)
    assert steps.phases_s["forward"] == pytest.approx([0.020] * 3)
    assert steps.phases_s["backward"] == pytest.approx([0.030, 0.031, 0.032])


def test_a_phase_that_a_step_lacks_is_zero_there():
    clock = FakeClock()
    segments = Segments(FakeQueue(clock).stopwatch())
    segments.start()
    clock.sleep(1.0)
    segments.cut("a")
    segments.end_step()
    clock.sleep(2.0)
    segments.cut("b")
    segments.end_step()
    steps = segments.finish()
    assert steps.phases_s == {"a": [1.0, 0.0], "b": [0.0, 2.0]}


def test_the_lead_in_and_what_follows_the_last_step_are_left_out_of_both_clocks():
    clock = FakeClock()
    queue = FakeQueue(clock)
    segments = Segments(queue.stopwatch(), clock)
    segments.start()
    for n in range(3):
        clock.sleep(0.001)
        queue.issue(0.010 + n / 1000)
        segments.cut("a")
        segments.end_step()
    clock.sleep(5.0)
    segments.cut("a")
    steps = segments.finish(lead_in=1)
    assert steps.steps_s == pytest.approx([0.011, 0.012])
    assert steps.phases_s["a"] == pytest.approx([0.011, 0.012])
    assert steps.host_s is not None
    assert steps.host_s["a"] == pytest.approx([0.001, 0.001])


def test_a_pass_that_never_ended_a_step_has_none():
    segments = Segments(FakeQueue(FakeClock()).stopwatch())
    segments.start()
    segments.cut("data")
    assert segments.finish(lead_in=1).steps_s == []


def test_what_is_left_out_is_in_no_step():
    clock = FakeClock()
    segments = Segments(FakeQueue(clock).stopwatch())
    segments.start()
    clock.sleep(9.0)
    segments.cut("a")
    segments.skip()  # a step that was not finished, and what came after
    clock.sleep(1.0)
    segments.cut("a")
    clock.sleep(9.0)
    segments.cut(None)  # a pause within the step
    clock.sleep(0.5)
    segments.cut("b")
    segments.end_step()
    clock.sleep(9.0)
    segments.skip()
    clock.sleep(2.0)
    segments.cut("a")
    segments.end_step()
    steps = segments.finish()
    assert steps.steps_s == pytest.approx([1.5, 2.0])
    assert steps.phases_s == {"a": pytest.approx([1.0, 2.0]), "b": pytest.approx([0.5, 0.0])}
