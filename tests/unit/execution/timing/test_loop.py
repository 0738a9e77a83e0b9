"""The loop with a fake clock and a fake device: exact figures, and every stopping reason."""

import random
import timeit

import pytest
from fakes import FakeClock, FakeQueue, source_of

from torchstone.core.schema.model import Batch
from torchstone.execution.timing.clock import LatencyStopwatch
from torchstone.execution.timing.loop import Instrument, Ranges, unmarked
from torchstone.execution.timing.segments import Segments
from torchstone.execution.timing.stopping import (
    DEVICE_S,
    FixedCount,
    StopReason,
    UntilLeftAlone,
    UntilQuiet,
    WarmUp,
    least_s_on,
)


def pulling(clock, spend):
    """A step that takes one batch and then spends what `spend(n)` says for the n-th step."""
    count = iter(range(10**9))

    def step(pull, mark):
        pull()
        spend(next(count))

    return step


def test_throughput_window_on_a_device_that_runs_behind_the_host():
    clock = FakeClock()
    queue = FakeQueue(clock)

    def step(pull, mark):
        pull()
        clock.sleep(0.001)  # issuing takes the host 1 ms
        queue.issue(0.010)  # and keeps the device busy for 10

    instrument = Instrument(step, source_of(8), queue.synchronize, clock)
    window = instrument.window(queue.stopwatch(), FixedCount(5))
    assert window.laps_s == pytest.approx([0.011, 0.010, 0.010, 0.010, 0.010])
    assert window.total_s == pytest.approx(0.051)
    assert window.items == [8] * 5
    assert window.tokens is None
    assert queue.synchronizations == 3, "only at the ends of the window: before its time is read, and for its laps"
    assert window.stopped_because == StopReason.FIXED_COUNT


def test_latency_window_waits_for_every_answer_and_leaves_the_wait_for_data_apart():
    clock = FakeClock()
    queue = FakeQueue(clock)

    def step(pull, mark):
        pull()
        queue.issue(0.010)

    instrument = Instrument(step, source_of(4, wait_s=0.002, clock=clock, tokens=40), queue.synchronize, clock)
    window = instrument.window(LatencyStopwatch(queue.synchronize, clock), FixedCount(3))
    assert window.laps_s == pytest.approx([0.012] * 3)
    assert window.waits_s == pytest.approx([0.002] * 3)
    assert window.tokens == [40] * 3
    assert window.total_s == pytest.approx(0.036)


def test_a_step_that_takes_several_batches_counts_them_all():
    clock = FakeClock()

    def step(pull, mark):
        for _ in range(4):
            pull()
        clock.sleep(1.0)

    instrument = Instrument(step, source_of(2, wait_s=0.5, clock=clock), lambda: None, clock)
    window = instrument.window(LatencyStopwatch(lambda: None, clock), FixedCount(2))
    assert window.items == [8, 8]
    assert window.waits_s == pytest.approx([2.0, 2.0])
    assert window.total_s == pytest.approx(6.0)


def test_a_source_that_ends_ends_the_window():
    clock = FakeClock()
    batches = iter([Batch({}, 1), Batch({}, 1)])

    def step(pull, mark):
        pull()
        clock.sleep(1.0)

    instrument = Instrument(step, batches.__next__, lambda: None, clock)
    window = instrument.window(LatencyStopwatch(lambda: None, clock), FixedCount(9))
    assert window.stopped_because == StopReason.SOURCE_ENDED
    assert window.items == [1, 1]
    assert len(window.laps_s) == 2


def reason(rule, spend, clock):
    instrument = Instrument(pulling(clock, lambda n: clock.sleep(spend(n))), source_of(1), lambda: None, clock)
    return instrument.window(LatencyStopwatch(lambda: None, clock), rule)


def test_stops_when_it_is_quiet_enough():
    clock = FakeClock()
    window = reason(UntilQuiet(0.01, budget_s=8.0, min_steps=3), lambda n: 0.010 + 0.0001 * (n % 2), clock)
    assert window.stopped_because == StopReason.QUIET_ENOUGH
    assert window.total_s < 2.0


def test_stops_when_the_budget_is_spent():
    clock = FakeClock()
    dice = random.Random(0)
    window = reason(UntilQuiet(0.015, budget_s=4.0, min_steps=3), lambda n: max(0.001, dice.gauss(0.010, 0.002)), clock)
    assert window.stopped_because == StopReason.BUDGET_SPENT
    assert window.total_s == pytest.approx(4.0, abs=0.02)


def test_stops_when_it_will_never_be_quiet():
    clock = FakeClock()
    window = reason(UntilQuiet(0.001, budget_s=4.0, min_steps=3), lambda n: 0.2 if (n // 7) % 2 else 0.01, clock)
    assert window.stopped_because == StopReason.NEVER_QUIET
    assert 2.0 <= window.total_s < 4.0


def test_no_target_means_the_whole_budget():
    clock = FakeClock()
    window = reason(UntilQuiet(None, budget_s=1.0, min_steps=3), lambda n: 0.125, clock)
    assert window.stopped_because == StopReason.BUDGET_SPENT
    assert len(window.laps_s) == 8


def a_beside(clock, waits, more_s=5.0, *, others=True, rule=None):
    """A window of 1 s whose threads have waited for so long by each moment, for others, or for one another."""

    waited_s = lambda: waits(clock.now_s)
    others_s = waited_s if others else lambda: 0.0
    return UntilLeftAlone(rule or UntilQuiet(None, 1.0, 3), waited_s, others_s, threads=2, more_s=more_s)


def test_a_window_that_nobody_disturbs_is_as_long_as_ever():
    clock = FakeClock()
    assert reason(a_beside(clock, lambda at: 0.05 * at), lambda n: 0.125, clock).total_s == pytest.approx(1.0)
    clock = FakeClock()
    assert reason(a_beside(clock, lambda _: None), lambda n: 0.125, clock).total_s == pytest.approx(1.0)
    clock = FakeClock()
    own = a_beside(clock, lambda at: 0.5 * at, others=False)
    assert reason(own, lambda n: 0.125, clock).total_s == pytest.approx(1.0), "its threads wait for one another"


def test_a_window_that_nobody_disturbs_still_ends_as_soon_as_it_is_known_well():
    clock = FakeClock()
    rule = a_beside(clock, lambda at: 0.03 * at, rule=UntilQuiet(0.01, 8.0, 3))
    window = reason(rule, lambda n: 0.010 + 0.0001 * (n % 2), clock)
    assert window.stopped_because == StopReason.QUIET_ENOUGH
    assert window.total_s < 2.0


def test_a_disturbed_window_goes_on_until_enough_of_it_is_left():
    clock = FakeClock()
    window = reason(a_beside(clock, lambda at: min(at, 0.5)), lambda n: 0.1, clock)
    assert window.stopped_because == StopReason.BUDGET_SPENT
    assert 1.7 <= window.total_s <= 1.9, "1.0 s is taken for disturbed, and 0.75 s more are enough"


def test_a_window_that_is_never_left_alone_ends_when_a_new_trial_costs_less():
    clock = FakeClock()
    window = reason(a_beside(clock, lambda at: at, more_s=2.0), lambda n: 0.1, clock)
    assert window.total_s == pytest.approx(3.0, abs=0.11)


def test_a_slow_step_is_taken_the_least_number_of_times_though_the_budget_is_spent():
    clock = FakeClock()
    window = reason(UntilQuiet(0.01, budget_s=1.0, min_steps=3), lambda n: 5.0, clock)
    assert len(window.laps_s) == 3


def test_enough_steps_keep_a_quiet_window_open():
    clock = FakeClock()
    window = reason(UntilQuiet(0.01, budget_s=8.0, min_steps=3, enough_steps=130), lambda n: 0.02, clock)
    assert len(window.laps_s) >= 130


def test_the_listener_is_told_once_a_second():
    clock = FakeClock()
    told = []
    step = pulling(clock, lambda n: clock.sleep(0.125))
    instrument = Instrument(step, source_of(1), lambda: None, clock, lambda *word: told.append(word))
    instrument.window(LatencyStopwatch(lambda: None, clock), FixedCount(27))
    assert [round(elapsed_s, 3) for _, elapsed_s, _ in told] == [1.0, 2.0, 3.0]
    assert all(step_s == pytest.approx(0.125) for *_, step_s in told)


def warm(times, least, budget_s=3.0, queue=0):
    clock = FakeClock()
    plan = WarmUp(least, budget_s, queue)
    step = pulling(clock, lambda n: clock.sleep(times(n)))
    first_s, laps_s = Instrument(step, source_of(1), lambda: None, clock).warm_up(plan)
    return first_s, laps_s, plan.settled


def test_the_first_step_is_kept_apart():
    first_s, laps_s, settled = warm(lambda n: 2.0 if n == 0 else 0.01, None)
    assert first_s == pytest.approx(2.0)
    assert laps_s == pytest.approx([0.01] * 10)
    assert settled


def test_warm_up_goes_on_while_steps_get_faster():
    _, laps_s, settled = warm(lambda n: 0.01 * (1 + 10 * 0.9**n), None)
    assert len(laps_s) > 15
    assert settled


def test_warm_up_ends_with_its_budget_and_says_that_it_was_not_over():
    _, laps_s, settled = warm(lambda n: 1.0 * 0.8**n, None)
    assert sum(laps_s) >= 3.0
    assert not settled


def test_slow_steps_are_warmed_up_twice_at_least():
    _, laps_s, _ = warm(lambda n: 60.0, None)
    assert len(laps_s) == 2


@pytest.mark.parametrize("asked", [0, 1, 7, 25])
def test_the_count_that_was_asked_for_is_the_least(asked):
    _, laps_s, _ = warm(lambda n: 0.01, asked, budget_s=0.0)
    assert len(laps_s) == asked


def test_a_loader_is_drained_first():
    _, laps_s, _ = warm(lambda n: 0.01, None, queue=16)
    assert len(laps_s) >= 16


def phased(clock, queue, wait_s=0.002):
    """A training step: the host waits for a batch and takes 1 ms to issue each phase, the device 4, 6 and 2 ms."""

    def step(pull, mark):
        pull()
        mark("data")
        for phase, busy_s in (("forward", 0.004), ("backward", 0.006), ("optimizer", 0.002)):
            clock.sleep(0.001)
            queue.issue(busy_s)
            mark(phase)

    return Instrument(step, source_of(8, wait_s, clock), queue.synchronize, clock)


def test_phases_on_a_device_that_runs_behind_are_the_devices_own_and_the_host_is_told_beside():
    clock = FakeClock()
    queue = FakeQueue(clock)
    steps = phased(clock, queue).dissect(Segments(queue.stopwatch(), clock), 4, closed=False)
    assert steps.steps_s == pytest.approx([0.012] * 4), "the step before them, of a device that had stood idle, is not"
    assert {name: pytest.approx(spent_s) for name, spent_s in steps.phases_s.items()} == {
        "data": [0.0] * 4, "forward": [0.004] * 4, "backward": [0.006] * 4, "optimizer": [0.002] * 4, "rest": [0.0] * 4
    }  # fmt: skip
    assert steps.host_s is not None
    assert steps.host_s["data"] == pytest.approx([0.002] * 4), "the host waits for data, the device does not"
    assert steps.host_s["forward"] == pytest.approx([0.001] * 4)
    assert queue.synchronizations == 2, "at the ends of the pass only"


def test_a_device_that_stands_idle_for_its_batch_shows_it_as_data():
    clock = FakeClock()
    queue = FakeQueue(clock)
    steps = phased(clock, queue, wait_s=0.030).dissect(Segments(queue.stopwatch(), clock), 3, closed=False)
    # A step is issued every 33 ms and takes the device 13: 1 ms to be issued, and 12 of work that end 10 ms later.
    assert steps.steps_s == pytest.approx([0.033] * 3)
    assert steps.phases_s["data"] == pytest.approx([0.020] * 3)
    assert sum(spent_s[0] for spent_s in steps.phases_s.values()) == pytest.approx(0.033)


def test_a_closed_loop_is_cut_as_it_is_measured():
    clock = FakeClock()
    queue = FakeQueue(clock)
    steps = phased(clock, queue).dissect(Segments(queue.stopwatch()), 3, closed=True)
    assert steps.steps_s == pytest.approx([0.015] * 3), "waiting for the batch, issuing the first phase, the device"
    assert steps.phases_s["data"] == pytest.approx([0.002] * 3)
    assert steps.host_s is None


def test_a_source_that_ends_ends_the_anatomy():
    clock = FakeClock()
    batches = iter([Batch({}, 1)] * 3)

    def step(pull, mark):
        pull()
        clock.sleep(0.5)
        mark("data")

    instrument = Instrument(step, batches.__next__, lambda: None, clock)
    assert instrument.dissect(Segments(FakeQueue(clock).stopwatch()), 9, closed=False).steps_s == [0.5, 0.5]


def test_marks_that_do_nothing_cost_a_step_less_than_a_microsecond():
    def six_phases():
        for phase in ("data", "transfer", "forward", "backward", "optimizer", "rest"):
            unmarked(phase)

    assert min(timeit.repeat(six_phases, number=1000, repeat=20)) / 1000 < 1e-6  # about 0.25 on a quiet machine


@pytest.mark.parametrize("begins_at", range(4))
def test_a_loader_that_delivers_in_bursts_is_measured_right_by_whole_turns(begins_at):
    # Four processes need 80 ms a batch each and finish together: four batches at once, then none for 80 ms.
    clock = FakeClock()
    taken = iter(range(10**9))

    def source():
        if next(taken) % 4 == 0:
            clock.sleep(0.080)
        return Batch({}, 32)

    instrument = Instrument(pulling(clock, lambda n: clock.sleep(0.0001)), source, lambda: None, clock)
    for _ in range(begins_at):
        source()
    window = instrument.window(LatencyStopwatch(lambda: None, clock), UntilQuiet(None, 0.01, 1, turn=4))
    assert len(window.laps_s) == 8, "two turns; a window of one step would say 100 µs, or 80 ms"
    assert window.total_s == pytest.approx(0.1608)


def least_s(times, budget_s=3.0, asked=None):
    clock = FakeClock()
    plan = WarmUp(asked, budget_s, 0, 0.5)
    step = pulling(clock, lambda n: clock.sleep(times(n)))
    return sum(Instrument(step, source_of(1), lambda: None, clock).warm_up(plan)[1])


def test_an_accelerator_is_warmed_up_for_its_clock_however_short_and_equal_its_steps_are():
    assert least_s(lambda n: 0.002) == pytest.approx(0.5, abs=0.003)
    assert least_s(lambda n: 0.002, budget_s=0.1) == pytest.approx(0.1, abs=0.003), "the budget is kept"
    assert least_s(lambda n: 0.002, asked=3) == pytest.approx(0.006), "who asks for steps gets those"
    assert least_s_on("cuda") == DEVICE_S
    assert least_s_on("cpu") == 0.0


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
