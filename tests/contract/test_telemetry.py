"""What every plug-in of telemetry/ keeps, whatever the machine."""

import os

import pytest
from over import over

from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import RAW
from torchstone.plugins import registry

SOURCES = registry.names("telemetry")
DEVICES = [
    None,
    *(DeviceInfo(kind, "cuda", "nobody", 0, "none") for kind in ("cpu", "cuda", "rocm", "mps", "xpu", "toaster")),
]


def test_the_sources_there_are():
    assert set(SOURCES) >= {"amd_smi", "host", "nvml", "process", "rapl"}


@over("device", DEVICES, lambda device: device.kind if device else "none")
@over("pid", [("no process", None), ("this one", os.getpid()), ("a gone one", 2**22 + 5)])
@pytest.mark.parametrize("name", SOURCES)
def test_every_gauge_measures_a_known_metric_and_never_raises(name, pid, device):
    source = registry.load("telemetry", name)
    assert source.describes
    gauges = source.open(pid, device)
    assert len({gauge.metric for gauge in gauges}) == len(gauges)
    for gauge in gauges:
        assert gauge.metric in RAW
        assert gauge.cumulative in (True, False)
        value = gauge.read()
        assert value is None or isinstance(value, float)


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_cumulative_does_not_fall(name):
    for gauge in registry.load("telemetry", name).open(os.getpid(), None):
        if gauge.cumulative:
            first, second = gauge.read(), gauge.read()
            assert first is None or second is None or second >= first
