"""A host that runs ahead of a device whose queue takes a thousand launches: budgets, blame, and the cost of looking."""

import pytest
from fakes import FakeClock, FakeEvents, FakeQueue, source_of

from torchstone.core.schema.model import Batch
from torchstone.execution.timing.loop import Instrument
from torchstone.execution.timing.stopping import FixedCount, StopReason, UntilQuiet
from torchstone.plugins.devices._torch_device import EventStopwatch

DEPTH = 1000


class Rig:
    """A step that the host issues in `launch_s` and the device does in `work_s`, timed by the real event stopwatch."""

    def __init__(self, launch_s, work_s, source=None, depth=DEPTH, from_idle_s=0.0, **costs):
        self.clock = FakeClock()
        self.queue = FakeQueue(self.clock, depth, from_idle_s)
        self.events = FakeEvents(self.clock, self.queue, **costs)
        self.watch = EventStopwatch(self.events, self.queue.synchronize, now_s=self.clock)
        self.most_ahead_s = 0.0

        def step(pull, mark):
            pull()
            self.clock.sleep(launch_s)
            self.queue.issue(work_s)
            self.most_ahead_s = max(self.most_ahead_s, self.queue.free_at_s - self.clock.now_s)

        taking = source(self.clock) if source is not None else source_of(8)
        self.instrument = Instrument(step, taking, self.queue.synchronize, self.clock)


def prefetching(every_s, ahead=4):
    """A loader that makes a batch in `every_s` and keeps so many ready."""

    def begun(clock):
        ready_s, taken_s = [0.0], [0.0] * ahead

        def give():
            ready_s.append(max(ready_s[-1], taken_s[-ahead]) + every_s)
            clock.now_s = max(clock.now_s, ready_s[-1])
            taken_s.append(clock.now_s)
            return Batch({}, 8)

        return give

    return begun


def test_a_window_ends_when_its_budget_is_over_on_the_device_too():
    rig = Rig(launch_s=0.0001, work_s=0.010)
    window = rig.instrument.window(rig.watch, UntilQuiet(None, 1.0, 3))
    assert window.stopped_because == StopReason.BUDGET_SPENT
    assert 1.0 <= window.total_s <= 1.12, "a thousand launches would be ten seconds more"
    assert len(window.laps_s) == pytest.approx(window.total_s / 0.010, abs=1)
    assert rig.most_ahead_s <= 0.11


def test_steps_of_a_second_are_two_ahead_at_most():
    rig = Rig(launch_s=0.0001, work_s=1.0)
    window = rig.instrument.window(rig.watch, UntilQuiet(None, 20.0, 3))
    assert window.total_s <= 22.1
    assert sum(window.laps_s[9:]) == pytest.approx(len(window.laps_s) - 9), "and the device never waits"


def test_a_loader_that_is_fast_enough_is_not_blamed():
    rig = Rig(launch_s=0.0001, work_s=0.010, source=prefetching(0.005))
    window = rig.instrument.window(rig.watch, FixedCount(200))
    assert sum(window.waits_s) < 0.05 * window.total_s, "running ahead, the host would wait for half of the time"


def test_a_loader_that_is_too_slow_is():
    rig = Rig(launch_s=0.0001, work_s=0.010, source=prefetching(0.020))
    window = rig.instrument.window(rig.watch, FixedCount(200))
    assert sum(window.waits_s) > 0.9 * window.total_s


def test_short_steps_read_as_they_are_though_events_are_slow_to_read():
    rig = Rig(launch_s=5e-6, work_s=20e-6, elapsed_s=4e-6, query_s=1e-6)
    window = rig.instrument.window(rig.watch, UntilQuiet(0.01, 1.0, 3))
    assert window.stopped_because == StopReason.QUIET_ENOUGH
    assert window.total_s / len(window.laps_s) == pytest.approx(20e-6, rel=0.01)
    assert sum(window.laps_s) == pytest.approx(window.total_s, rel=0.001)


def test_where_nobody_looks_nothing_is_read_before_the_end():
    rig = Rig(launch_s=5e-6, work_s=20e-6, elapsed_s=4e-6)
    rig.watch.start()
    for _ in range(3000):
        rig.queue.issue(20e-6)
        rig.watch.lap()
        rig.watch.hold(0.1, read=False)
    assert rig.events.read == 0
    assert len(rig.watch.stop()) == 3000


def test_of_a_long_window_the_last_laps_are_told_without_reading_all():
    rig = Rig(launch_s=0.0, work_s=20e-6)
    rig.watch.start()
    for _ in range(2000):
        rig.queue.issue(20e-6)
        rig.watch.lap()
    rig.clock.sleep(0.01001)
    assert rig.watch.recent(9) == pytest.approx([20e-6] * 9)
    assert rig.events.read == 9
    assert rig.watch.recent(5000) == pytest.approx([20e-6] * 1500)
    assert rig.watch.stop() == pytest.approx([20e-6] * 2000)


def test_a_turn_is_the_devices_time_of_its_steps_and_not_what_it_takes_to_begin():
    def taken_s(work_s):
        rig = Rig(launch_s=0.0002, work_s=work_s, from_idle_s=0.002)
        rig.clock.sleep(1.0)
        turn = rig.instrument.turn(rig.watch, steps=10, lead_in=2)
        assert turn.items == [8] * 10
        assert turn.end_s == pytest.approx(rig.clock.now_s)
        assert turn.end_s - turn.begin_s == pytest.approx(turn.total_s)
        assert len(turn.laps_s) == 10
        return turn.total_s

    assert taken_s(0.001) == pytest.approx(0.010)
    assert taken_s(0.00103) / taken_s(0.001) == pytest.approx(1.03), "from a device that stands idle it is 1.025"


def test_a_turn_whose_source_ends_says_so():
    rig = Rig(launch_s=0.0002, work_s=0.001, source=lambda _: iter([Batch({}, 1)] * 5).__next__)
    turn = rig.instrument.turn(rig.watch, steps=10, lead_in=2)
    assert turn.stopped_because == StopReason.SOURCE_ENDED
    assert turn.items == [1] * 3
    assert len(turn.laps_s) == 3
