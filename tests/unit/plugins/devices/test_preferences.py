"""What each kind of device takes natively, which layout and which attention it likes, as its library tells it."""

from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.plugins.devices import cpu, cuda, mps, rocm, xpu

ALL = ("flash", "efficient", "cudnn", "math")


def opened(vendor):
    device: Any = vendor.open(0)
    return device


def kernels(device):
    assert device.objection("sdpa", "auto") is None
    return tuple(name for name in ALL if device.objection("sdpa", name) is None)


def nvidia(fake_torch, backend, major):
    card = SimpleNamespace(name="a card", total_memory=1, major=major, minor=0)
    fake_torch(cuda=backend([card])).version.cuda = "13.0"
    return cuda.PLUGIN


@pytest.mark.parametrize(
    ("major", "native", "attention"),
    [
        (9, ("fp32", "tf32", "bf16", "fp16"), ALL), (8, ("fp32", "tf32", "bf16", "fp16"), ALL),
        (7, ("fp32", "fp16"), ("efficient", "math")), (6, ("fp32",), ("efficient", "math")),
    ],
)  # fmt: skip
def test_nvidia_by_compute_capability(fake_torch, backend, major, native, attention):
    vendor = nvidia(fake_torch, backend, major)
    assert vendor.probe()[0].precisions == native
    device = opened(vendor)
    assert kernels(device) == attention
    refused = [name for name in ("tf32", "bf16") if device.objection("precision", name)]
    assert refused == [name for name in ("tf32", "bf16") if name not in native], "one truth, told in two places"


@pytest.mark.parametrize(
    ("major", "precision", "nhwc"),
    [
        (9, "bf16", True),
        (8, "fp16", True),
        (9, "tf32", False),
        (9, "fp32", False),
        (7, "fp16", True),
        (6, "fp16", False),
    ],
)
def test_nvidia_likes_nhwc_where_tensor_cores_work_in_half_precision(fake_torch, backend, major, precision, nhwc):
    wish, why = opened(nvidia(fake_torch, backend, major)).preference("channels_last", {"precision": precision})
    assert wish is nhwc
    assert "tensor cores" in why


def amd(fake_torch, backend, tmp_path, architecture, runtime):
    card = SimpleNamespace(name="a card", total_memory=1, major=9, minor=4, gcnArchName=f"{architecture}:sramecc+")
    fake_torch(cuda=backend([card])).version.hip = runtime
    return rocm.Rocm(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "native"),
    [
        ("gfx90a", ("fp32", "bf16", "fp16")), ("gfx942", ("fp32", "bf16", "fp16")),
        ("gfx1100", ("fp32", "bf16", "fp16")),
        ("gfx908", ("fp32", "fp16")), ("gfx1030", ("fp32", "fp16")),
    ],
)  # fmt: skip
def test_amd_by_architecture(fake_torch, backend, tmp_path, architecture, native):
    vendor = amd(fake_torch, backend, tmp_path, architecture, "7.0.2")
    assert vendor.probe()[0].precisions == native
    assert kernels(opened(vendor)) == ("flash", "efficient", "math")


@pytest.mark.parametrize(
    ("architecture", "runtime", "said", "precision", "nhwc", "word"),
    [
        ("gfx942", "7.0.2", None, "bf16", True, "MIOpen takes"),
        ("gfx942", "6.4.1", None, "bf16", False, "PYTORCH_MIOPEN_SUGGEST_NHWC"),
        ("gfx942", "6.4.1", "1", "bf16", True, "MIOpen takes"),
        ("gfx942", "7.0.2", "0", "bf16", False, "PYTORCH_MIOPEN_SUGGEST_NHWC"),
        ("gfx942", "7.0.2", None, "fp32", False, "half precision"),
        ("gfx1100", "7.0.2", None, "bf16", False, "Instinct"),
    ],
)
def test_amd_likes_nhwc_only_where_miopen_does(
    fake_torch, backend, tmp_path, monkeypatch, architecture, runtime, said, precision, nhwc, word
):
    if said is None:
        monkeypatch.delenv("PYTORCH_MIOPEN_SUGGEST_NHWC", raising=False)
    else:
        monkeypatch.setenv("PYTORCH_MIOPEN_SUGGEST_NHWC", said)
    device = opened(amd(fake_torch, backend, tmp_path, architecture, runtime))
    wish, why = device.preference("channels_last", {"precision": precision})
    assert wish is nhwc
    assert word in why


def apple(fake_torch, backend, name, newest):
    module: Any = backend()
    module.event = SimpleNamespace(Event=module.Event)
    torch = fake_torch(mps=module)
    torch.backends.mps.get_name = lambda: name
    torch.backends.mps.is_macos_or_newer = lambda major, minor: major <= newest
    return mps.PLUGIN


@pytest.mark.parametrize(
    ("name", "newest", "native"),
    [("Apple M3 Max", 15, True), ("Apple M2", 13, False), ("Apple M1 Pro", 15, False), ("AMD Radeon Pro", 15, False)],
)
def test_apple_has_bf16_since_the_m2_and_macos_14(fake_torch, backend, name, newest, native):
    vendor = apple(fake_torch, backend, name, newest)
    assert ("bf16" in vendor.probe()[0].precisions) == native
    device = opened(vendor)
    assert kernels(device) == ("math",)
    assert device.preference("channels_last", {"precision": "bf16"}) is None


@pytest.mark.parametrize(
    ("has", "native"),
    [
        ({"has_fp16": True, "has_bfloat16_conversions": True}, ("fp32", "bf16", "fp16")),
        ({"has_fp16": True, "has_bfloat16_conversions": False}, ("fp32", "fp16")), ({}, ("fp32",)),
    ],
)  # fmt: skip
def test_intel_gpus_tell_it_themselves(fake_torch, backend, has, native):
    fake_torch(xpu=backend([SimpleNamespace(name="Intel GPU", **has)], {})).version.xpu = "20250301"
    assert xpu.PLUGIN.probe()[0].precisions == native
    assert kernels(opened(xpu.PLUGIN)) == ("flash", "math")


@pytest.mark.parametrize(
    ("line", "native"),
    [
        ("flags\t: fpu avx2 avx512f avx512_bf16", ("fp32", "bf16")),
        ("flags\t: fpu amx_bf16 amx_tile avx512_fp16", ("fp32", "bf16", "fp16")),
        ("Features\t: fp asimd bf16", ("fp32", "bf16")),
        ("flags\t: fpu avx2", ("fp32",)), ("", ("fp32",)),
    ],
)  # fmt: skip
def test_a_cpu_by_its_instructions(fake_torch, tmp_path, line, native):
    fake_torch()
    (tmp_path / "cpuinfo").write_text(f"model name\t: a processor\n{line}\n")
    vendor = cpu.Cpu(tmp_path / "cpuinfo")
    assert vendor.probe()[0].precisions == native
    device = opened(vendor)
    assert kernels(device) == ("flash", "math")
    for precision in ("fp32", "bf16", "fp16"):
        wish, why = device.preference("channels_last", {"precision": precision})
        assert wish is (precision != "fp32" and precision in native)
        assert ("oneDNN" in why) == wish


@pytest.mark.parametrize(("capability", "nhwc"), [("AVX512", True), ("AVX2", False), ("DEFAULT", False)])
def test_a_cpu_likes_nhwc_in_fp32_where_that_was_measured(fake_torch, capability, nhwc):
    fake_torch().backends.cpu = SimpleNamespace(get_cpu_capability=lambda: capability)
    assert opened(cpu.PLUGIN).preference("channels_last", {"precision": "fp32"})[0] is nhwc


def test_every_kind_says_how_many_threads_are_worth_having(fake_torch, backend, monkeypatch):
    from torchstone.plugins.devices import _torch_device

    for module in (cpu, _torch_device):
        monkeypatch.setattr(module, "worthwhile", lambda: (3, "of us"))
    vendors = [nvidia(fake_torch, backend, 9), cpu.PLUGIN]
    assert [opened(vendor).preference("threads", {}) for vendor in vendors] == [(3, "of us")] * 2
    assert opened(vendors[1]).preference("batch_size", {}) is None
