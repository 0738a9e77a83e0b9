"""What the gauges of an accelerator say, while some work runs or for a while."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

import torchstone
from torchstone.api import diagnostics
from torchstone.api.diagnostics import GaugeReading, seen_of
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.plugins import registry

CARD = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "a card", 80 * 2**30, "9.0", "570.1")
CPU = DeviceInfo("cpu", "cpu", "AMD", 0, "a processor")


def source(**values: float) -> Any:
    gauges = [SimpleNamespace(metric=name, cumulative=False, read=lambda v=value: v) for name, value in values.items()]
    return SimpleNamespace(describes="fake", open=lambda pid, device: gauges)


@pytest.fixture
def a_card(monkeypatch):
    monkeypatch.setattr(diagnostics, "inspect", lambda: Inspected((CPU, CARD), {}, {"rocm": "no AMD driver"}))
    fake = source(device_utilization=0.4, device_memory_used_bytes=79 * 2**30, device_throttled=1.0, rss_bytes=1.0)
    monkeypatch.setattr(registry, "usable", lambda family: iter([("fake", fake)]))


def test_gauges_are_read_while_work_runs(a_card):
    done = []

    def work():
        time.sleep(0.05)
        done.append(1)

    found = torchstone.analyze_gpu_utilization(work, period_s=0.005)
    (use,) = found.devices
    assert done
    assert set(use.gauges) == {"device_utilization", "device_memory_used_bytes", "device_throttled"}
    assert use.gauges["device_utilization"].mean == pytest.approx(0.4)
    assert use.gauges["device_utilization"].readings >= 3
    assert [sentence.split(":")[0] for sentence in use.seen] == [
        "in use 40 % of the time", "99 % of its memory was in use", "throttled by temperature or power",
    ]  # fmt: skip
    text = str(found)
    assert text.startswith("cuda:0 a card, over ")
    assert "\n  80.0 GiB memory, compute capability 9.0, driver 570.1\n" in text
    assert repr(found) == text, "what a cell of a notebook shows that ends with the call"
    assert "device_utilization" in text
    assert "40.0 %" in text


def test_or_for_a_while(a_card):
    found = torchstone.analyze_gpu_utilization(seconds=0.03, period_s=0.01)
    assert 0.03 <= found.seconds < 5.0
    assert found.devices[0].gauges["device_utilization"].readings >= 2


def test_what_the_work_raises_goes_on(a_card):
    with pytest.raises(ZeroDivisionError):
        torchstone.analyze_gpu_utilization(lambda: 1 / 0)


def test_without_an_accelerator_it_says_what_was_looked_for(monkeypatch):
    monkeypatch.setattr(diagnostics, "inspect", lambda: Inspected((CPU,), {}, {"cuda": "no NVIDIA driver"}))
    done = []
    found = torchstone.analyze_gpu_utilization(lambda: done.append(1))
    assert done
    assert found.devices == ()
    assert str(found) == "no accelerator found\n  cuda: no NVIDIA driver"
    with pytest.raises(torchstone.UsageError, match="both must be above 0"):
        torchstone.analyze_gpu_utilization(seconds=0.0)


@pytest.mark.parametrize(
    ("share", "says"), [(0.01, "almost idle"), (0.5, "it waits"), (0.95, "compute-bound"), (None, "is not available")]
)
def test_utilization_in_words(share, says):
    gauges = {} if share is None else {"device_utilization": GaugeReading(share, share, share, 3)}
    assert says in seen_of(CARD, gauges)[0]
