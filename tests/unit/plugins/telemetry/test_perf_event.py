"""Hardware counters: the kernel's answers, recorded; and this machine's own, counters or the reason."""

import errno
import os
import struct

import pytest
from build import a_trial

from torchstone.core.figures import figures
from torchstone.core.schema.trial import Series
from torchstone.execution import machine_facts
from torchstone.plugins import registry
from torchstone.plugins.telemetry._system import PerfEvent


def answering(folder, **answers):
    """Each event by its number: (count, enabled, running), or an errno."""

    def opening(number, pid):
        told = answers[f"e{number}"]
        if isinstance(told, int):
            raise OSError(told, os.strerror(told))
        file = folder / f"counter{number}"
        file.write_bytes(2 * struct.pack("=QQQ", *told))  # it is read twice: whether it answers, and what
        return os.open(file, os.O_RDONLY)

    return opening


def test_counts_are_scaled_to_the_time_they_were_not_counted(tmp_path):
    source = PerfEvent(answering(tmp_path, e1=(1000, 200, 200), e0=(500, 200, 100), e3=(1, 200, 0)))
    assert {gauge.metric: gauge.read() for gauge in source.open(7, None)} == {
        "instructions": 1000.0, "cpu_cycles": 1000.0,
    }  # fmt: skip
    assert source.refusal() is None


def test_without_a_process_nothing_is_counted(tmp_path):
    assert PerfEvent(answering(tmp_path)).open(None, None) == ()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOENT, "virtual machines (ENOENT)"),
        (errno.EACCES, "perf_event_paranoid is above 2 (EACCES)"),
        (errno.EPERM, "a container"),
        (errno.ENOSYS, "no perf_event_open (ENOSYS)"),
    ],
)
def test_a_refusal_has_its_reason(tmp_path, code, said):
    source = PerfEvent(answering(tmp_path, e0=code, e1=code, e3=code))
    assert source.open(7, None) == []
    assert said in (source.refusal() or "")


def test_this_machine_counts_or_says_why():
    gauges = {gauge.metric: gauge for gauge in registry.load("telemetry", "perf_event").open(os.getpid(), None)}
    told = machine_facts.settings()["hardware_counters"] or ""
    if "instructions" not in gauges:
        assert told.startswith("none: ")
        return
    before = gauges["instructions"].read()
    assert sum(range(200_000))
    after = gauges["instructions"].read()
    assert before is not None
    assert after is not None
    assert after - before > 200_000


def test_figures_of_the_windows():
    """Windows of 0.108 s from 2 s on, 160 items: a counter that rises by so much a second."""
    rates = {"instructions": 2e9, "cpu_cycles": 1e9, "cache_misses": 1e6}
    series = [Series(name, "perf_event", (0.0, 10.0), (0.0, 10.0 * rate)) for name, rate in rates.items()]
    trial = a_trial(series=series)
    values = figures(trial).values
    assert values["instructions_per_cycle"] == pytest.approx(2.0)
    assert values["cache_misses_per_item"] == pytest.approx(1e6 * values["total_time_s"] / values["total_items"])
    assert "instructions_per_cycle" not in figures(a_trial()).values
