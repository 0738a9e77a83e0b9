"""How many threads are worth having: a made-up /sys and /proc, and what is said of them."""

import os
import time

import pytest

from torchstone.core.cores import worthwhile
from torchstone.plugins.devices._torch_device import EventStopwatch, HostStopwatch, WaitingStopwatch


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes a machine: who shares a core with whom, which CPUs are ours, its control groups."""

    def make(siblings, ours=None, groups="0::/\n", limits=None):
        for cpu, shared in enumerate(siblings):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{shared}\n")
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
        for path, text in (limits or {}).items():
            file = tmp_path / "sys/fs/cgroup" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        allowed = set(range(len(siblings))) if ours is None else set(ours)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed, raising=False)
        return tmp_path

    return make


def test_one_thread_a_core_not_one_a_hyperthread(machine):
    pairs = ["0,4", "1,5", "2,6", "3,7"] * 2
    assert worthwhile(machine(pairs), {}) == (4, "the physical cores of 8 logical ones")


def test_cores_without_hyperthreads_are_all_worth_having(machine):
    assert worthwhile(machine(["0", "1"]), {}) == (2, "one a core")


def test_only_the_cores_that_are_ours_count(machine):
    root = machine(["0,4", "1,5", "2,6", "3,7"] * 2, ours={0, 4, 1})
    assert worthwhile(root, {}) == (2, "the physical cores of 3 logical ones")


@pytest.mark.parametrize(
    ("groups", "limits", "threads"),
    [
        ("0::/box/inner\n", {"box/cpu.max": "150000 100000\n", "box/inner/cpu.max": "max 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "900000 100000\n"}, 4),
        (
            "4:cpu,cpuacct:/box\n2:memory:/other\n",
            {"cpu/box/cpu.cfs_quota_us": "100000\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            1,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
    ],
    ids=["an outer group's, rounded up", "no limit", "more than there is", "version 1", "version 1 without"],
)
def test_no_more_threads_than_the_control_groups_allow(machine, groups, limits, threads):
    found = worthwhile(machine(["0", "1", "2", "3"], groups=groups, limits=limits), {})
    assert found is not None
    number, why = found
    assert number == threads
    assert ("control group" in why) == (threads < 4)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_the_user_said_to_torch_stands(machine, name):
    root = machine(["0,1", "0,1"])
    assert worthwhile(root, {name: "2"}) is None
    assert worthwhile(root, {name: ""}) == (1, "the physical cores of 2 logical ones")


def test_nobody_can_tell(machine, tmp_path, monkeypatch):
    machine(["0"], ours={0, 9})  # CPU 9 has no page
    assert worthwhile(tmp_path, {}) is None
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # macOS
    assert worthwhile(tmp_path, {}) is None


def test_without_control_groups_there_is_no_limit(machine):
    root = machine(["0", "1"])
    (root / "proc/self/cgroup").unlink()
    assert worthwhile(root, {}) == (2, "one a core")


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
