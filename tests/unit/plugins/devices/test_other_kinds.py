from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.core.errors import Unsupported
from torchstone.plugins.devices import _torch_device, cpu, mps, rocm, xpu
from torchstone.plugins.devices._torch_device import EventStopwatch, HostStopwatch

INSTINCT = SimpleNamespace(
    name="AMD Instinct MI300X", total_memory=200_000_000_000, major=9, minor=4, gcnArchName="gfx942:sramecc+:xnack-",
    pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0,
)  # fmt: skip


def test_rocm_is_torchs_cuda_on_a_hip_build(fake_torch, backend, tmp_path):
    (tmp_path / "version").write_text("6.10.5\n")
    fake_torch(cuda=backend([INSTINCT], {"num_alloc_retries": 0})).version.hip = "6.4.1"
    vendor = rocm.Rocm(tmp_path)
    (info,) = vendor.probe()
    assert (info.kind, info.torch_kind, info.vendor, info.runtime) == ("rocm", "cuda", "AMD", "6.4.1")
    assert (info.compute_capability, info.driver, info.bus_id) == ("gfx942", "6.10.5", "0000:c1:00.0")
    device: Any = vendor.open(0)
    assert device.torch_device == "cuda:0"
    assert device.memory() == {"allocator_retries": 0}
    assert "NVIDIA" in device.objection("precision", "tf32")
    assert device.objection("precision", "bf16") is None


def test_rocm_is_absent_on_a_cuda_build(fake_torch, backend, tmp_path):
    fake_torch(cuda=backend([INSTINCT])).version.cuda = "13.0"
    assert not rocm.PLUGIN.probe()
    assert "without ROCm; no AMD kernel driver found" in rocm.Rocm(tmp_path / "none").missing()
    assert "amdgpu is there" in rocm.Rocm(tmp_path).missing()
    with pytest.raises(Unsupported, match="without ROCm"):
        rocm.PLUGIN.open(0)


class AppleModule:
    def __init__(self, backend):
        self.event, self.synchronize = SimpleNamespace(Event=backend.Event), backend.synchronize

    def current_allocated_memory(self):
        return 11

    def driver_allocated_memory(self):
        return 22

    def recommended_max_memory(self):
        return 16_000_000_000


def test_mps_has_events_and_no_peak(fake_torch, backend):
    fake_torch(mps=AppleModule(backend()))
    (info,) = mps.PLUGIN.probe()
    assert (info.name, info.memory_bytes) == ("Apple M2", 16_000_000_000)
    device: Any = mps.PLUGIN.open(0)
    assert device.memory() == {"allocated_bytes": 11, "reserved_bytes": 22}
    watch = device.stopwatch()
    assert isinstance(watch, EventStopwatch)
    watch.start()
    watch.lap()
    assert watch.stop() == pytest.approx((0.010,))


@pytest.mark.parametrize(
    ("axis", "value", "word"),
    [
        ("precision", "tf32", "NVIDIA"), ("precision", "bf16", "macOS 14"), ("fused", "on", "fused"),
        ("compile", "default", "prototype"), ("pin_memory", True, "shares its memory"),
    ],
)  # fmt: skip
def test_what_mps_cannot_do(fake_torch, backend, axis, value, word):
    fake_torch(mps=AppleModule(backend()))
    said = mps.PLUGIN.open(0).objection(axis, value) or ""
    assert word in said
    assert "Apple M2" in said


def test_mps_allows_the_rest(fake_torch, backend):
    fake_torch(mps=AppleModule(backend()))
    device: Any = mps.PLUGIN.open(0)
    for axis, value in [("precision", "fp16"), ("fused", "off"), ("compile", "off"), ("pin_memory", False)]:
        assert device.objection(axis, value) is None


def test_xpu(fake_torch, backend):
    props = SimpleNamespace(name="Intel Data Center GPU Max 1550", total_memory=1, driver_version="1.3", has_fp16=False)
    module = backend([props], {})
    module.is_bf16_supported = lambda: False
    fake_torch(xpu=module).version.xpu = "20250301"
    (info,) = xpu.PLUGIN.probe()
    assert (info.kind, info.driver, info.runtime) == ("xpu", "1.3", "20250301")
    device: Any = xpu.PLUGIN.open(0)
    assert [p for p in ("fp32", "tf32", "bf16", "fp16") if device.objection("precision", p) is None] == ["fp32"]
    assert device.memory() == {}


def test_xpu_says_whether_there_is_a_card(fake_torch, tmp_path):
    fake_torch()
    assert "without XPU; no Intel GPU" in xpu.Xpu(tmp_path).missing()
    (tmp_path / "0000:00:02.0").mkdir()
    (tmp_path / "0000:00:02.0" / "vendor").write_text("0x8086\n")
    (tmp_path / "0000:00:02.0" / "class").write_text("0x030000\n")
    assert "the kernel shows an Intel GPU" in xpu.Xpu(tmp_path).missing()


@pytest.mark.parametrize("plugin", [rocm.PLUGIN, mps.PLUGIN, xpu.PLUGIN])
def test_without_torch_there_is_nothing_and_it_says_so(monkeypatch, plugin):
    def refuse(name):
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(_torch_device, "import_module", refuse)
    assert not plugin.probe()
    assert "torch cannot be imported" in plugin.missing()


def test_the_cpu_without_its_compiler(monkeypatch, fake_torch):
    fake_torch()
    device: Any = cpu.PLUGIN.open(0)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "needs a C++ compiler" in device.objection("compile", "default")
    monkeypatch.setattr("shutil.which", lambda name: f"/opt/{name}" if name == "icpx" else None)
    monkeypatch.setenv("CXX", "icpx -O3")
    assert device.objection("compile", "default") is None


def test_the_cpu(fake_torch, tmp_path):
    fake_torch()
    info = tmp_path / "cpuinfo"
    info.write_text("vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n\nmodel name\t: another\n")
    (found,) = cpu.Cpu(info).probe()
    assert (found.vendor, found.name, found.compute_capability) == ("AMD", "AMD EPYC 9654", None)
    device: Any = cpu.Cpu(info).open(0)
    assert "AMD EPYC 9654" in device.objection("precision", "tf32")
    assert device.objection("pin_memory", True) == "pinning needs an accelerator: there is none to transfer to"
    for axis, value in [("precision", "bf16"), ("precision", "fp16"), ("channels_last", True), ("fused", "on")]:
        assert device.objection(axis, value) is None
    assert isinstance(device.stopwatch(), HostStopwatch)
    assert device.memory() == {}
    with pytest.raises(Unsupported, match="no device cpu:1"):
        cpu.PLUGIN.open(1)
