import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from torchstone.core.errors import Unsupported
from torchstone.plugins.devices import _torch_device, cuda
from torchstone.plugins.devices._torch_device import EventStopwatch, WaitingStopwatch
from torchstone.plugins.devices.cuda import Cuda, _uuid, slices_of

STATS = {
    "allocated_bytes.all.current": 10,
    "allocated_bytes.all.peak": 20,
    "reserved_bytes.all.current": 30,
    "reserved_bytes.all.peak": 40,
    "num_alloc_retries": 2,
    "segment.all.peak": 7,
}


def card(name="NVIDIA H200", major=9, minor=0, **more):
    return SimpleNamespace(
        name=name, total_memory=150_000_000_000, major=major, minor=minor, uuid="8a5f0c1e-0000-1111-2222-333344445555",
        pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0, **more,
    )  # fmt: skip


@pytest.fixture
def cards(fake_torch, backend, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "570.86.15")

    def install(*properties, **more):
        module = backend(properties, STATS, **more)
        fake_torch(cuda=module).version.cuda = "13.0"
        return module

    return install


def test_probe_tells_what_the_driver_tells(cards):
    cards(card())
    (info,) = cuda.PLUGIN.probe()
    assert (info.kind, info.torch_kind, info.vendor, info.name) == ("cuda", "cuda", "NVIDIA", "NVIDIA H200")
    assert (info.compute_capability, info.driver, info.runtime) == ("9.0", "570.86.15", "13.0")
    assert info.uuid == "GPU-8a5f0c1e-0000-1111-2222-333344445555"
    assert info.bus_id == "0000:3b:00.0"


def test_a_torch_that_tells_no_bus_leaves_it_absent(cards):
    cards(SimpleNamespace(name="old", total_memory=1, major=7, minor=0))
    (info,) = cuda.PLUGIN.probe()
    assert (info.bus_id, info.uuid) == (None, None)


def test_probe_is_empty_on_a_rocm_build(cards):
    cards(card())
    sys.modules["torch"].version.hip = "6.4"
    assert not cuda.PLUGIN.probe()
    assert "use device rocm" in cuda.PLUGIN.missing()


def test_what_does_not_start_is_told_with_the_words_of_the_driver(cards):
    said = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use 'spawn'"
    cards(card(), init_error=RuntimeError(f"{said}\nsecond line"))
    for asked in (cuda.PLUGIN.probe, lambda: cuda.PLUGIN.open(0)):
        with pytest.raises(Unsupported) as refused:
            asked()
        assert str(refused.value) == f"torch 2.13.0 cannot start the device: {said}"
    module = cards(card())
    module.get_device_properties = lambda index: (_ for _ in ()).throw(RuntimeError("CUDA error: unknown error"))
    with pytest.raises(Unsupported, match="unknown error"):
        cuda.PLUGIN.probe()


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"),
        RuntimeError("No CUDA GPUs are available"), RuntimeError("No HIP GPUs are available"),
        RuntimeError("No XPU devices are available."), AssertionError("Torch not compiled with CUDA enabled"),
    ],
)  # fmt: skip
def test_a_machine_without_a_card_has_none_and_no_error(cards, error):
    cards(card(), init_error=error)
    assert not cuda.PLUGIN.probe()
    assert "is built for CUDA 13.0 but sees no device; NVIDIA driver 570.86.15 is there" in cuda.PLUGIN.missing()


def test_of_more_cards_than_the_driver_starts_those_that_start_are_found(cards):
    module = cards(card("one"), card("two"), counted=8)
    assert module.device_count() == 8, "what NVML shows"
    assert [info.name for info in cuda.PLUGIN.probe()] == ["one", "two"]
    assert cuda.PLUGIN.open(1).torch_device == "cuda:1"


def test_a_torch_that_goes_on_counting_by_nvml_is_asked_for_the_drivers_own_count(cards):
    module = cards(card("one"), card("two"))
    module.device_count = lambda: 8
    torch: Any = sys.modules["torch"]
    torch._C = SimpleNamespace(_cuda_getDeviceCount=lambda: 2)
    assert [info.name for info in cuda.PLUGIN.probe()] == ["one", "two"]


def test_missing_names_the_build_and_the_driver(fake_torch, monkeypatch):
    fake_torch()
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (_ for _ in ()).throw(pynvml.NVMLError_LibraryNotFound()))
    assert cuda.PLUGIN.missing() == (
        "torch 2.13.0 is a build without CUDA; no NVIDIA driver found (NVML: LibraryNotFound)"
    )


def test_open_makes_the_device_current(cards):
    module = cards(card(), card())
    device: Any = cuda.PLUGIN.open(1)
    assert module.current == 1
    assert device.torch_device == "cuda:1"


def test_open_does_not_ask_nvml(cards, monkeypatch):
    cards(card())
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: pytest.fail("a trial loads no NVML"))
    assert cuda.PLUGIN.open(0).torch_device == "cuda:0"


def test_open_of_an_absent_device_says_what_there_is(cards):
    cards(card())
    with pytest.raises(Unsupported, match=r"no device cuda:3; there is 1"):
        cuda.PLUGIN.open(3)
    cards()
    with pytest.raises(Unsupported, match="no cuda device"):
        cuda.PLUGIN.open(0)


def test_memory_is_told_in_our_words_and_absent_stays_absent(cards):
    module = cards(card())
    assert cuda.PLUGIN.open(0).memory() == {
        "allocated_bytes": 10, "peak_allocated_bytes": 20, "reserved_bytes": 30, "peak_reserved_bytes": 40,
        "allocator_retries": 2,
    }  # fmt: skip
    module.memory_stats = lambda device=None: {"allocated_bytes.all.current": 5}  # cudaMallocAsync tells less
    assert cuda.PLUGIN.open(0).memory() == {"allocated_bytes": 5}


def test_events_time_it(cards):
    module = cards(card())
    device: Any = cuda.PLUGIN.open(0)
    watch = device.stopwatch()
    assert isinstance(watch, EventStopwatch)
    watch.start()
    watch.lap()
    assert watch.stop() == pytest.approx((0.010,))
    waited = module.waited
    device.synchronize()
    assert module.waited == waited + 1


def test_each_of_two_open_devices_has_its_own_queue(cards):
    module = cards(card("one"), card("two"))
    module.step_s = {0: 0.010, 1: 0.099}
    first: Any = cuda.PLUGIN.open(0)
    second: Any = cuda.PLUGIN.open(1)  # torch's current device from here on
    for device, lap_s in ((first, 0.010), (second, 0.099)):
        watch = device.stopwatch()
        watch.start()
        watch.lap()
        watch.lap()
        assert watch.stop() == pytest.approx((lap_s, lap_s))
    waited: list[int] = []
    module.synchronize = waited.append
    first.synchronize()
    module.memory_stats = lambda device=None: {"num_alloc_retries": device}
    assert waited == [0]
    assert (first.memory(), second.memory()) == ({"allocator_retries": 0}, {"allocator_retries": 1})


def test_events_that_cannot_time_are_replaced_by_waiting(cards):
    cards(card(), event_error=RuntimeError("timing is not supported"))
    assert isinstance(cuda.PLUGIN.open(0).stopwatch(), WaitingStopwatch)


@pytest.mark.parametrize(
    ("major", "precision", "word"),
    [
        (9, "bf16", None), (9, "tf32", None), (8, "tf32", None), (7, "fp16", None), (7, "fp32", None),
        (7, "bf16", "emulated"), (7, "tf32", "Ampere"),
    ],
)  # fmt: skip
def test_precisions_by_compute_capability(cards, major, precision, word):
    cards(card("Tesla V100", major))
    said = cuda.PLUGIN.open(0).objection("precision", precision)
    assert (said is None) == (word is None)
    assert said is None or (word in said and "Tesla V100" in said)


def test_compile_needs_triton_and_a_compiler(cards, monkeypatch):
    cards(card())
    device: Any = cuda.PLUGIN.open(0)
    monkeypatch.setattr(_torch_device, "find_spec", lambda name: None)
    assert "Triton" in device.objection("compile", "default")
    monkeypatch.setattr(_torch_device, "find_spec", lambda name: object())
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "compiler" in device.objection("compile", "default")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert device.objection("compile", "default") is None
    assert device.objection("compile", "off") is None


def test_nothing_stands_against_the_rest(cards):
    cards(card())
    device: Any = cuda.PLUGIN.open(0)
    for axis, value in [("pin_memory", True), ("fused", "on"), ("fused", "auto"), ("channels_last", True)]:
        assert device.objection(axis, value) is None


class Absent(Exception):
    """What pynvml raises."""


def nvml(*, answers=True):
    """Two cards, the second divided into two slices (places 0 and 2)."""

    def start():
        if not answers:
            raise Absent

    def most(card):
        if card == 0:
            raise Absent  # not supported
        return 7

    def one(card, number):
        if number not in (0, 2):
            raise Absent  # not found
        return f"slice{number}"

    return SimpleNamespace(
        NVMLError=Absent, nvmlInit=start, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetMaxMigDeviceCount=most,
        nvmlDeviceGetMigDeviceHandleByIndex=one, nvmlDeviceGetUUID=lambda handle: f"MIG-{handle}",
        nvmlDeviceGetName=lambda handle: "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    )  # fmt: skip


def test_every_slice_is_listed_with_its_card():
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb of card 1"
    assert Cuda(nvml=nvml()).slices() == {"MIG-slice0": name, "MIG-slice2": name}


def test_without_nvml_there_is_none():
    assert slices_of(nvml(answers=False)) == {}


class Props:
    uuid = "8a5f0c1e-0000"

    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("name", "uuid"), [("NVIDIA H200", "GPU-8a5f0c1e-0000"), ("NVIDIA A100 MIG 1g.5gb", "MIG-8a5f0c1e-0000")]
)
def test_a_slice_has_the_uuid_of_a_slice(name, uuid):
    assert _uuid(Props(name)) == uuid
    assert cuda.PLUGIN.describes
