"""Ranges: opened where a phase begins, though a mark tells only where it ends."""

import pytest

from torchstone.core.schema.batch import Batch
from torchstone.execution.timing.ranges import Ranges


def recorded(steps):
    """What a profiler would be told of these steps, each a list of marks; and what the wrapped mark was told."""
    calls: list[str] = []
    marks: list[str] = []
    waiting = iter(steps)

    def step(pull, mark):
        for phase in next(waiting):
            pull()
            mark(phase)

    def work():
        calls.append("work")
        return Batch({}, 1)

    ranged = Ranges(lambda name: calls.append(f"+{name}"), lambda: calls.append("-")).around(step)
    for _ in steps:
        calls.append("|")
        ranged(work, marks.append)
    return " ".join(calls).split("|")[1:], marks


def test_from_the_second_step_on_each_phase_has_its_name():
    (first, second, third), marks = recorded([["data", "forward"]] * 3)
    assert first.split() == ["+step", "+rest", "work", "-", "+rest", "work", "-", "+rest", "-", "-"]
    wanted = ["+step", "+data", "work", "-", "+forward", "work", "-", "+rest", "-", "-"]
    assert second.split() == third.split() == wanted
    assert marks == ["data", "forward"] * 3, "the mark within is told as ever"


def test_a_step_with_more_phases_than_the_one_before_is_named_the_next_time():
    (_, longer, settled), _ = recorded([["a"], ["a", "b"], ["a", "b"]])
    assert longer.split() == ["+step", "+a", "work", "-", "+rest", "work", "-", "+rest", "-", "-"]
    assert settled.split() == ["+step", "+a", "work", "-", "+b", "work", "-", "+rest", "-", "-"]


def test_a_step_that_raises_leaves_no_range_open():
    calls = []

    def step(pull, mark):
        mark("data")
        raise StopIteration

    ranged = Ranges(lambda name: calls.append(1), lambda: calls.append(-1)).around(step)
    with pytest.raises(StopIteration):
        ranged(lambda: Batch({}, 1), lambda phase: None)
    assert sum(calls) == 0
