"""Cards that the kernel shows, in a made-up /sys/bus/pci."""

import pynvml
import pytest

from torchstone.plugins.devices import _torch_device, cuda, rocm, xpu
from torchstone.plugins.devices._torch_device import AMD, INTEL, NVIDIA, hides_devices, of_their_own


@pytest.fixture
def bus(tmp_path):
    """Return a function that plugs a device in: address, vendor, class, the kernel's driver, and memory of its own."""
    (tmp_path / "devices").mkdir()

    def plug(address, vendor, kind, driver=None, memory_bytes=None):
        device = tmp_path / "devices" / address
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}00\n")
        if driver is not None:
            (tmp_path / "drivers" / driver).mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(tmp_path / "drivers" / driver)
        if memory_bytes is not None:
            (device / "mem_info_vram_total").write_text(f"{memory_bytes}\n")
        return tmp_path / "devices"

    return plug


def test_cards_are_told_with_address_and_driver(bus):
    bus("0000:3b:00.0", NVIDIA, "0x0302", "nvidia")
    bus("0000:3b:00.1", NVIDIA, "0x0403", "snd_hda_intel")  # the sound of its display
    pci = bus("0000:00:1f.0", INTEL, "0x0601")
    (card,) = of_their_own(NVIDIA, pci)
    assert (card.address, card.driver) == ("0000:3b:00.0", "nvidia")


@pytest.mark.parametrize("driver", ["vfio-pci", "pci-stub"])
def test_a_card_of_a_virtual_machine_is_not_this_ones(bus, driver):
    assert of_their_own(NVIDIA, bus("0000:3b:00.0", NVIDIA, "0x0300", driver)) == []


@pytest.mark.parametrize(
    ("address", "vendor", "kind", "memory_bytes", "its_own"),
    [
        ("0000:00:02.0", INTEL, "0x0300", None, False), ("0000:03:00.0", INTEL, "0x0300", None, True),
        ("0000:29:00.0", INTEL, "0x0380", None, True), ("0000:00:0b.0", INTEL, "0x1200", None, False),
        ("0000:c5:00.0", AMD, "0x0300", 512 << 20, False), ("0000:c5:00.0", AMD, "0x0300", None, False),
        ("0000:03:00.0", AMD, "0x0300", 24 << 30, True), ("0000:c1:00.0", AMD, "0x1200", None, True),
    ],
    ids=["built in", "Arc", "Max", "an NPU", "built in", "without a driver", "Radeon", "Instinct"],
)  # fmt: skip
def test_what_is_built_into_a_processor_is_no_card(bus, address, vendor, kind, memory_bytes, its_own):
    assert bool(of_their_own(vendor, bus(address, vendor, kind, "a driver", memory_bytes))) is its_own


@pytest.mark.parametrize(
    ("value", "hides"),
    [("", True), ("-1", True), ("NoDevFiles", True), ("void", True), ("0", False), ("1,0", False), ("GPU-7", False)],
)
def test_whoever_hides_every_device_wants_none(value, hides):
    assert hides_devices({"CUDA_VISIBLE_DEVICES": value}, "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") is hides
    assert not hides_devices({}, "CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("vendor", "make", "variable", "word"),
    [
        (NVIDIA, cuda.Cuda, "CUDA_VISIBLE_DEVICES", "NVIDIA"),
        (AMD, lambda pci, env: rocm.Rocm(pci=pci, environment=env), "ROCR_VISIBLE_DEVICES", "AMD"),
        (INTEL, lambda pci, env: xpu.Xpu(pci=pci, environment=env), "ZE_AFFINITY_MASK", "Intel"),
    ],
)
def test_every_kind_tells_what_the_kernel_shows(bus, monkeypatch, vendor, make, variable, word):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: (_ for _ in ()).throw(pynvml.NVMLError_LibraryNotFound()))
    pci = bus("0000:03:00.0", vendor, "0x0380", "a driver", 64 << 30)
    assert make(pci, {}).seen() == [f"an {word} card at 0000:03:00.0 (a driver driver)"]
    assert not make(pci, {variable: ""}).seen()
    assert not make(pci / "nothing", {}).seen()


def test_a_machine_without_a_bus_has_no_cards(tmp_path):
    assert _torch_device.cards(NVIDIA, tmp_path / "nothing") == []
