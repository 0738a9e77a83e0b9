import os
import time
from pathlib import Path

import psutil
import pytest

from torchstone.plugins.telemetry import _gauges
from torchstone.plugins.telemetry._gauges import KeptOpen, Shared
from torchstone.plugins.telemetry._system import HostSource, ProcessSource, Rapl

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def roots(tmp_path):
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    write(proc / "stat", "cpu  100 20 30 4000 50 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 1 0\n")
    write(proc / "meminfo", "MemTotal:       1000 kB\nMemFree:  100 kB\nMemAvailable:    400 kB\n")
    write(proc / "vmstat", "nr_free_pages 7\npswpin 3\npswpout 4\nzswpin 9\n")
    for core, khz in enumerate((2_000_000, 3_000_000)):
        write(sys / f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", f"{khz}\n")
    write(sys / "class/hwmon/hwmon0/name", "nvme\n")
    write(sys / "class/hwmon/hwmon0/temp1_input", "30000\n")
    write(sys / "class/hwmon/hwmon1/name", "k10temp\n")
    write(sys / "class/hwmon/hwmon1/temp1_input", "64250\n")
    return proc, sys


def read(proc, sys):
    return {gauge.metric: gauge.read() for gauge in HostSource(proc, sys).open(None, None)}


def test_every_file_in_our_units(roots):
    assert read(*roots) == pytest.approx(
        {
            "host_busy_s": 163 * TICK_S,
            "host_steal_s": 8 * TICK_S,
            "host_memory_used_bytes": 600 * 1024,
            "host_swapped_bytes": 7 * os.sysconf("SC_PAGE_SIZE"),
            "host_clock_hz": 2.5e9,
            "host_temperature_c": 64.25,
        }
    )


def test_what_the_host_lacks_is_absent(roots):
    proc, sys = roots
    (proc / "vmstat").unlink()
    (sys / "class/hwmon/hwmon1/temp1_input").unlink()
    write(proc / "meminfo", "MemTotal: 1000 kB\n")
    assert set(read(proc, sys.parent / "none")) == {"host_busy_s", "host_steal_s"}


def test_without_a_sensor_chip_a_thermal_zone_answers(roots):
    proc, sys = roots
    (sys / "class/hwmon/hwmon1/name").write_text("acpitz\n")
    write(sys / "class/thermal/thermal_zone2/type", "x86_pkg_temp\n")
    write(sys / "class/thermal/thermal_zone2/temp", "51000\n")
    assert read(proc, sys)["host_temperature_c"] == pytest.approx(51.0)


def test_only_some_clocks_of_many_cores_are_read(roots):
    _, sys = roots
    for core in range(64):
        write(sys / f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", "1000000\n")
    assert read(*roots)["host_clock_hz"] == pytest.approx(1e9)


def test_here_it_agrees_with_psutil():
    def psutils():
        memory, times = psutil.virtual_memory(), psutil.cpu_times()
        return memory.total - memory.available, times.user + times.nice + times.system + times.irq + times.softirq

    before = psutils()
    told = {gauge.metric: gauge.read() for gauge in HostSource().open(None, None)}
    (memory, later), (busy_s, later_s) = zip(before, psutils(), strict=True)  # others may be busy meanwhile
    assert 0.9 * min(memory, later) <= told["host_memory_used_bytes"] <= 1.1 * max(memory, later)
    assert 0.98 * busy_s <= told["host_busy_s"] <= 1.02 * later_s


def test_elsewhere_psutil_answers():
    told = read(Path("/nonexistent"), Path("/nonexistent"))
    assert told["host_busy_s"] > 0
    assert told["host_memory_used_bytes"] > 0


def test_a_full_reading_costs_well_under_a_millisecond():
    gauges = [g for s in (ProcessSource(), HostSource(), Rapl()) for g in s.open(os.getpid(), None)]

    def once():
        began_s = time.thread_time()  # what it costs, however busy the machine is
        for gauge in gauges:
            gauge.read()
        return time.thread_time() - began_s

    assert sorted(once() for _ in range(50))[25] < 1e-3  # about 80 µs on a quiet machine


def test_gauges_on_one_reading_share_it():
    readings = []

    def take():
        readings.append(1)
        return {"a": float(len(readings)), "b": 7.0}

    shared = Shared(take)
    a, b, absent = shared.gauge("a"), shared.gauge("b"), shared.gauge("c")
    assert (a.read(), b.read(), absent.read()) == (1.0, 7.0, None)
    assert a.read() == 2.0
    assert len(readings) == 2


def test_a_file_that_is_no_number_or_not_there(tmp_path):
    write(tmp_path / "words", "N/A\n")
    assert KeptOpen(tmp_path / "words").number() is None
    assert KeptOpen(tmp_path / "none").number() is None
    write(tmp_path / "one", "1\n")
    file = KeptOpen(tmp_path / "one")
    write(tmp_path / "one", "23\n")
    assert file.number() == 23


def test_a_file_that_is_held_when_the_interpreter_ends_is_closed(tmp_path, monkeypatch):
    (tmp_path / "one").write_text("1")
    file = KeptOpen(tmp_path / "one")
    descriptor = file._descriptor
    assert descriptor is not None
    monkeypatch.setattr(_gauges, "os", None)  # as the interpreter leaves a module's names in its last moments
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize(
    ("group", "folder", "text", "held_s"),
    [
        ("0::/user/x\n", "user/x", "usage_usec 9\nthrottled_usec 2500000\n", 2.5),
        ("4:cpu,cpuacct:/job\n0::/\n", "cpu/job", "nr_throttled 3\nthrottled_time 1500000000\n", 1.5),
        ("4:cpu:/elsewhere\n", "cpu", "throttled_time 500000000\n", 0.5),
        ("0::/\n", ".", "usage_usec 9\n", None),
    ],
)
def test_what_a_cpu_quota_held_up_is_read_from_the_own_control_group(tmp_path, group, folder, text, held_s):
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(group)
    (proc / "stat").write_text("cpu  1 0 0 0 0 0 0 0 0 0\n")
    (sys / "fs/cgroup" / folder).mkdir(parents=True)
    (sys / "fs/cgroup" / folder / "cpu.stat").write_text(text)
    gauges = {gauge.metric: gauge for gauge in HostSource(proc, sys).open(None, None)}
    assert (gauges["quota_wait_s"].read() if "quota_wait_s" in gauges else None) == held_s
