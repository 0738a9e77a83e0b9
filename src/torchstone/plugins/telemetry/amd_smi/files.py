"""What the kernel's amdgpu driver shows of a device under /sys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.telemetry._gauges import Reading, file_gauge, first_line, present

_AMD = "0x1002"


def by_files(drm: Path, device: DeviceInfo) -> Sequence[Reading]:
    """Return the gauges that the driver's files answer; no library is needed, and energy has no file."""
    cards = [card / "device" for card in sorted(drm.glob("card[0-9]*")) if first_line(card / "device/vendor") == _AMD]
    if device.bus_id is not None:
        cards = [card for card in cards if same_bus(_slot(card), device.bus_id)]
    if len(cards) != 1:  # several and no bus id: the order of /sys is not the order of ROCm
        return ()
    card = cards[0]
    sensors = next(iter(sorted(card.glob("hwmon/hwmon*"))), card / "hwmon")
    power = next((n for n in ("power1_average", "power1_input") if first_line(sensors / n).isdigit()), "power1_average")
    return present(
        (
            file_gauge("device_utilization", card / "gpu_busy_percent", 0.01),
            file_gauge("device_memory_used_bytes", card / "mem_info_vram_used"),
            file_gauge("device_temperature_c", sensors / "temp1_input", 1e-3),
            file_gauge("device_power_w", sensors / power, 1e-6),
            file_gauge("device_clock_hz", sensors / "freq1_input"),
        )
    )


def _slot(card: Path) -> str:
    try:
        lines = (card / "uevent").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # gone while we looked
        return ""
    return next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), "")


def same_bus(one: str, other: str) -> bool:
    """Say whether two PCI addresses are one."""
    return one.lower()[-12:] == other.lower()[-12:]  # NVIDIA and some tools write the domain with eight digits
