"""What every plug-in of devices/ keeps, whatever the machine."""

import subprocess
import sys

import pytest

from torchstone.core.errors import Unsupported
from torchstone.plugins import registry

KINDS = registry.names("devices")


def test_the_kinds_there_are():
    assert set(KINDS) >= {"cpu", "cuda", "mps", "rocm", "xpu"}


@pytest.mark.parametrize("kind", KINDS)
def test_probe_tells_devices_of_its_kind_in_order_or_what_is_missing(kind):
    vendor = registry.load("devices", kind)
    assert vendor.describes
    devices = vendor.probe()
    assert [d.kind for d in devices] == [kind] * len(devices)
    assert [d.index for d in devices] == list(range(len(devices)))
    if not devices:
        assert len(vendor.missing()) > 10
        with pytest.raises(Unsupported, match=kind):
            vendor.open(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopwatch_of_three_laps_gives_three_positive_numbers(kind):
    import torch

    vendor = registry.load("devices", kind)
    if not vendor.probe():
        pytest.skip(vendor.missing())
    device = vendor.open(0)
    tensor = torch.ones(128, 128, device=device.torch_device)
    watch = device.stopwatch()
    watch.start()
    for _ in range(3):
        tensor = tensor @ tensor
        watch.lap()
    assert len(watch.recent(9)) <= 3
    laps_s = watch.stop()
    assert len(laps_s) == 3
    assert all(0 < lap_s < 60 for lap_s in laps_s)
    assert all(isinstance(value, int) for value in device.memory().values())
    assert device.objection("batch_size", 1) is None
    assert device.objection("precision", "fp32") is None


@pytest.mark.parametrize("family", ["devices", "telemetry"])
def test_importing_plugins_imports_nothing_heavy(family):
    code = (
        "import sys; from torchstone.plugins import registry as r;"
        f"[r.load({family!r}, name) for name in r.names({family!r})];"
        "print(*{'torch', 'pynvml', 'psutil', 'amdsmi', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_takes_what_it_has_natively_and_says_what_it_likes(kind):
    vendor = registry.load("devices", kind)
    found = vendor.probe()
    if not found:
        pytest.skip(vendor.missing())
    device = vendor.open(0)
    assert found[0].precisions[0] == "fp32"
    assert not [word for word in found[0].precisions if device.objection("precision", word)]
    assert device.objection("sdpa", "math") is None
    threads = device.preference("threads", {"precision": "fp32"})
    assert threads is None or threads[0] >= 1
    layout = device.preference("channels_last", {"precision": "fp32"})
    assert layout is None or isinstance(layout[0], bool)
