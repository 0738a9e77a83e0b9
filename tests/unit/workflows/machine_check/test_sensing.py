"""What a spinning loop loses, who else computes, and how often the CPU was too hot."""

import itertools
import os
import pathlib

import pytest

from torchstone.workflows.machine_check import conditions


def test_a_loop_that_is_never_disturbed_loses_nothing_and_one_that_is_loses_that(monkeypatch):
    ticks = itertools.count()

    def quiet():
        return next(ticks) * 1e-6

    assert conditions._spun(0.01, quiet) == (0.0, 0.0)
    steps = itertools.chain([1e-6] * 100, [0.002], [1e-6] * 100, [0.001], itertools.repeat(1e-6))
    moments = itertools.accumulate(steps)
    lost_s, longest_s = conditions._spun(0.01, lambda: next(moments))
    assert lost_s == pytest.approx(0.003)
    assert longest_s == pytest.approx(0.002)


def test_the_busiest_processes_are_named(tmp_path):
    for pid, name in ((7, "python"), (8, "bad\x1bname"), (9, "idle")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    said = conditions.busiest_processes({7: 1.0, 8: 5.0, 9: 2.0}, {7: 2.0, 8: 5.5, 9: 2.0, 10: 99.0}, 2.0, tmp_path)
    assert said == "python (pid 7) 0.50, bad\x1bname (pid 8) 0.25"


def test_a_real_spin_tells_of_this_machine():
    spun = conditions.spin(0.05, conditions.Gauges(None))
    assert 0.0 <= spun.lost_share < 1.0
    assert 0.0 <= spun.longest_s < 5.0
    if pathlib.Path("/proc/stat").exists():
        assert spun.others_cores is not None
        assert 0.0 <= spun.others_cores < 2.0 * (os.cpu_count() or 1)


def test_throttle_events_are_summed_where_they_are_counted(tmp_path):
    assert conditions.throttle_events(tmp_path) is None
    for cpu, count in (("cpu0", "3\n"), ("cpu1", "4\n"), ("cpu2", "strange")):
        (tmp_path / cpu / "thermal_throttle").mkdir(parents=True)
        (tmp_path / cpu / "thermal_throttle/core_throttle_count").write_text(count)
    assert conditions.throttle_events(tmp_path) == 7


def test_gauges_that_are_absent_answer_nothing():
    assert conditions.Gauges(None).read("device_power_w") is None
