"""Gauges that disturb are left alone in windows, and a counter is asked once how often it moves."""

from types import SimpleNamespace

import pytest
from fakes import FakeClock

from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.controller import telemetry_sampler
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.plugins import registry
from torchstone.plugins.telemetry._gauges import FunctionGauge


class Counter(FunctionGauge):
    asked = 0

    def tick_s(self):
        Counter.asked += 1
        return 0.1


@pytest.fixture
def gauges(monkeypatch):
    others = FunctionGauge("device_other_processes", lambda: 1.0, between_windows=True)
    made = [
        FunctionGauge("device_clock_hz", lambda: 2e9),
        others,
        Counter("device_energy_j", lambda: 7.0, cumulative=True),
    ]
    monkeypatch.setattr(registry, "names", lambda family: ["fake"])
    monkeypatch.setattr(registry, "load", lambda family, name: SimpleNamespace(open=lambda pid, device: made))
    monkeypatch.setattr(telemetry_sampler, "_ticks_s", {})
    Counter.asked = 0
    return made


def test_what_holds_a_window_up_is_read_outside_of_it_only(gauges):
    clock = FakeClock()
    reading = TelemetrySampler(1, None, 0.0, clock)
    for in_window in (False, True, True, False):
        clock.sleep(1.0)
        reading.read(in_window=in_window)
    at_s = {series.metric: series.at_s for series in reading.series()}
    assert at_s["device_clock_hz"] == at_s["device_energy_j"] == (1.0, 2.0, 3.0, 4.0)
    assert at_s["device_other_processes"] == (1.0, 4.0)


def test_a_device_is_asked_once_how_often_its_counter_moves(gauges):
    card, other = (DeviceInfo("cuda", "cuda", "NVIDIA", index, "a card") for index in range(2))
    for device in (card, card, other):
        assert TelemetrySampler(1, device, 0.0, FakeClock()).facts() == Facts(energy_tick_s=0.1)
    assert Counter.asked == 2


def test_without_such_a_counter_nothing_is_said(gauges):
    gauges.pop()
    assert TelemetrySampler(1, None, 0.0, FakeClock()).facts() == Facts()


def test_the_devices_of_all_ranks_are_read_each_under_its_name(gauges):
    first, second = (DeviceInfo("cuda", "cuda", "NVIDIA", index, "a card") for index in range(2))
    gauges.append(FunctionGauge("host_busy_s", lambda: 1.0))
    reading = TelemetrySampler(1, first, 0.0, FakeClock(), [second])
    reading.read()
    named = [(series.metric, series.device) for series in reading.series()]
    assert named.count(("device_energy_j", "cuda:0")) == named.count(("device_energy_j", "cuda:1")) == 1
    assert [name for name in named if name[0] == "host_busy_s"] == [("host_busy_s", None)]


def test_of_ranks_on_other_nodes_too_nothing_is_read_that_would_be_a_part_of_the_whole(gauges):
    gauges += [
        FunctionGauge(name, lambda: 1.0) for name in ("rss_bytes", "package_energy_j", "process_cpu_s", "host_busy_s")
    ]
    reading = TelemetrySampler(1, None, 0.0, FakeClock(), whole=False)
    reading.read()
    kept = {"device_clock_hz", "device_other_processes", "process_cpu_s", "host_busy_s"}
    assert {series.metric for series in reading.series()} == kept
    assert reading.facts() == Facts()
