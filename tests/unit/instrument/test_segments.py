"""Segments: the parts of a step sum to the step, on a device that runs behind the host, too."""

import pytest
from fakes import FakeClock, FakeQueue

from torchstone.instrument.segments import REST, Segments


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
