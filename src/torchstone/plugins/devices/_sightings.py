"""Cards on the PCI bus as the kernel lists them, whether torch supports them or not, so that none is missed.

Only files are read; no driver is initialised. amdsmi and oneAPI's tools read the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PCI = Path("/sys/bus/pci/devices")
NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
_DISPLAY, _ACCELERATOR = ("0x0300", "0x0302", "0x0380"), "0x1200"  # classes: VGA, 3D, other display; accelerator
_DATA_CENTRE = ("0x0380", _ACCELERATOR)  # AMD's Instinct cards have no display
_LENT = ("vfio-pci", "pci-stub")  # drivers that hold a card for a virtual machine
_SMALLEST_BYTES = 6 << 30  # of a card that ROCm drives; what is built into a processor is lent less
_NOTHING = ("", "-1", "none", "nodevfiles", "void")  # what schedulers and people write for no device at all


class Sighting(NamedTuple):
    """A card on the bus: its address, its class, and the kernel's driver of it (empty: none)."""

    address: str
    kind: str
    driver: str
    memory_bytes: int | None


def cards(vendor: str, pci: Path = PCI) -> Sequence[Sighting]:
    """Return that vendor's graphics cards and accelerators, those left out that a virtual machine holds."""
    found = []
    for device in sorted(pci.glob("*")):
        kind = _text(device / "class")[:6]
        if kind not in (*_DISPLAY, _ACCELERATOR) or _text(device / "vendor") != vendor:
            continue
        driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
        memory = _text(device / "mem_info_vram_total")
        if driver not in _LENT:
            found.append(Sighting(device.name, kind, driver, int(memory) if memory.isdigit() else None))
    return found


def of_their_own(vendor: str, pci: Path = PCI) -> Sequence[Sighting]:
    """Return those cards that are not built into the processor, as far as the bus tells.

    Intel's built-in ones are on bus 0. AMD's are told by their memory, which is a small part of the host's.
    """
    if vendor == INTEL:
        return [card for card in cards(vendor, pci) if card.address.split(":")[1:2] != ["00"]]
    if vendor == AMD:
        return [c for c in cards(vendor, pci) if c.kind in _DATA_CENTRE or (c.memory_bytes or 0) >= _SMALLEST_BYTES]
    return cards(vendor, pci)


def described(sightings: Sequence[Sighting], maker: str) -> Sequence[str]:
    """Return each card in words."""
    return [f"an {maker} card at {card.address} ({card.driver or 'no'} driver)" for card in sightings]


def hidden(environment: Mapping[str, str], *names: str) -> bool:
    """Say whether one of these variables hides every device: then it is its user who wants none."""
    return any(name in environment and environment[name].split(",")[0].strip().lower() in _NOTHING for name in names)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # another kernel, or the device has no such file
        return ""
