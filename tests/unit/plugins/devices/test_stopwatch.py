import time

import pytest

from torchstone.plugins.devices._stopwatch import EventStopwatch, HostStopwatch, WaitingStopwatch


def ticking(*stamps_ns):
    return iter(stamps_ns).__next__


def test_host_laps_are_the_differences():
    watch = HostStopwatch(ticking(100, 1_000_000_100, 3_000_000_100))
    watch.start()
    watch.lap()
    watch.lap()
    assert watch.stop() == pytest.approx((1.0, 2.0))
    assert watch.recent(1) == pytest.approx((2.0,))
    assert watch.recent(9) == pytest.approx((1.0, 2.0))
    assert watch.recent(0) == ()


def test_a_host_stopwatch_starts_again_from_nothing():
    watch = HostStopwatch(ticking(0, 10, 1000, 1007))
    watch.start()
    watch.lap()
    first = watch.stop()
    watch.start()
    assert watch.recent(5) == ()
    watch.lap()
    assert watch.stop() == pytest.approx((7e-9,))
    assert first == pytest.approx((10e-9,))


def test_a_lap_of_the_host_costs_far_less_than_a_microsecond():
    def once():
        watch = HostStopwatch()
        watch.start()
        lap, began_ns = watch.lap, time.perf_counter_ns()
        for _ in range(10_000):
            lap()
        return (time.perf_counter_ns() - began_ns) / 10_000

    assert min(once() for _ in range(5)) < 600  # ns; about 100 on a quiet machine


def test_waiting_says_so_and_waits_at_every_lap():
    waited = []
    watch = WaitingStopwatch(lambda: waited.append(1), ticking(0, 5, 11))
    watch.start()
    watch.lap()
    watch.lap()
    assert watch.stop() == pytest.approx((5e-9, 6e-9))
    assert len(waited) == 3
    assert "waiting" in watch.reads


def test_recent_tells_only_what_has_passed_and_never_waits(backend):
    device = backend()
    watch = EventStopwatch(lambda: device.Event(enable_timing=True), device.synchronize)
    watch.start()
    for _ in range(3):
        watch.lap()
    waited = device.waited
    assert watch.recent(5) == ()
    device.advance(1)  # the beginning of the first lap: no lap is known yet
    assert watch.recent(5) == ()
    device.advance(2)
    assert watch.recent(5) == pytest.approx((0.010, 0.010))
    assert watch.recent(1) == pytest.approx((0.010,))
    assert device.waited == waited
    assert watch.stop() == pytest.approx((0.010,) * 3)
    assert device.waited == waited + 1


def test_events_come_from_a_pool_that_is_used_again(backend):
    device = backend()
    watch = EventStopwatch(lambda: device.Event(enable_timing=True), device.synchronize)
    for _ in range(3):
        watch.start()
        for _ in range(100):
            watch.lap()
        assert len(watch.stop()) == 100
    assert device.Event.made == 101


def test_where_asking_waits_recent_tells_the_hosts_laps(backend):
    device = backend()
    watch = EventStopwatch(lambda: device.Event(enable_timing=True), device.synchronize, elapsed_waits=True)
    device.Event.elapsed_time = lambda self, end: pytest.fail("this waits on MPS")
    watch.start()
    watch.lap()
    watch.lap()
    device.advance(2)
    (lap_s,) = watch.recent(5)
    assert 0 <= lap_s < 0.005
    device.Event.elapsed_time = lambda self, end: 10.0
    assert watch.stop() == pytest.approx((0.010, 0.010))


def test_stop_without_a_lap_is_empty(backend):
    device = backend()
    watch = EventStopwatch(lambda: device.Event(enable_timing=True), device.synchronize)
    watch.start()
    assert watch.stop() == ()


@pytest.mark.parametrize("index", [0, 1])
def test_the_host_is_held_where_it_is_too_far_ahead_and_the_device_keeps_work(backend, index):
    device, now_s = backend(), [0.0]

    def clock():
        now_s[0] = max(now_s[0], device.now_s.get(index, 0.0))
        return now_s[0]

    watch = EventStopwatch(
        lambda: device.Event(enable_timing=True), lambda: device.synchronize(index), stream=lambda: (index,),
        now_s=clock,
    )  # fmt: skip
    watch.start()
    left = []
    for _ in range(40):
        watch.lap()
        watch.hold(0.1, read=True)
        left.append(len(device.queues[index]))
    assert max(left) <= 11, "laps of 10 ms: ten of them are a tenth of a second"
    assert min(left[8:]) >= 4
    assert device.waited == 1, "it waited for events, never for everything"
    assert watch.stop() == pytest.approx((0.010,) * 40)


def test_stopwatches_of_the_host_hold_nobody():
    watch = HostStopwatch(ticking(0, 5))
    watch.start()
    watch.hold(0.1, read=True)
    watch.lap()
    assert watch.stop() == pytest.approx((5e-9,))
