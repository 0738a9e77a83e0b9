"""Cards by the names that people type: memory and power as the vendor's document has them, rates in datasheet.py.

`h100-80gb`, `H100 80GB`, `NVIDIA H100 SXM` and `h100` are one card. A vendor's GB of device memory are taken for GiB,
as drivers count them; of those a driver keeps 1 to 2 % for itself. What no document prints is None. Of the two dies of
an MI250X, and the two stacks of a Max 1550, torch makes two devices: the figures are those of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from torchstone.core import datasheet
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.machine import DeviceInfo

_GIB = 2**30
_FORMATS = ("fp32", "tf32", "bf16", "fp16")
_VENDOR_WORDS = re.compile(r"nvidia|geforce|tesla|amd|instinct|intel|data ?center gpu|apple|graphics|\(r\)|\(tm\)")
_SIZE = re.compile(r"(\d+)gi?b")


class Card(msgspec.Struct, frozen=True):
    """A device that need not be here. `device_name`: as its driver prints it, and the datasheet has it.

    `capability`: what torch calls so (NVIDIA: 9.0; AMD: gfx942). `power_w`: of the board, None where no document of the
    vendor gives it for one device. `names`: what people type, the usual one first.
    """

    title: str
    kind: str
    device_name: str
    memory_gib: float
    power_w: float | None
    names: tuple[str, ...]
    capability: str | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of device memory."""
        return round(self.memory_gib * _GIB)

    @property
    def source(self) -> str | None:
        """Return the vendor's document, None for a card that is a size and no more."""
        found = datasheet.bandwidth(self.device_name, self.memory_bytes)
        return None if found is None else found.source

    def info(self) -> DeviceInfo:
        """Return what a driver would tell of it."""
        vendor, torch_kind = _KINDS[self.kind]
        return DeviceInfo(
            self.kind,
            torch_kind,
            vendor,
            0,
            self.device_name,
            self.memory_bytes,
            self.capability,
            precisions=self._precisions(),
        )

    def _precisions(self) -> tuple[str, ...]:
        """Return the formats its units for products have: those with a dense rate; TF32 is NVIDIA's."""
        if self.kind == "mps":
            return ("fp32", "fp16") if "M1" in self.title else ("fp32", "bf16", "fp16")
        if self.kind == "xpu" or not self.device_name:
            return tuple(p for p in _FORMATS if p != "tf32" or self.kind == "cuda")
        rates = {p for p in _FORMATS if datasheet.dense_peak_flops(self.device_name, p, self.memory_bytes) is not None}
        return tuple(p for p in _FORMATS if p in rates and (p != "tf32" or self.kind == "cuda"))


_KINDS: Mapping[str, tuple[str, str]] = {
    "cuda": ("NVIDIA", "cuda"),
    "rocm": ("AMD", "cuda"),
    "xpu": ("Intel", "xpu"),
    "mps": ("Apple", "mps"),
}


def card(word: str) -> Card:
    """Return the card of that name, or one of that size (`24gb`). Raises UsageError naming the nearest."""
    key = _folded(word)
    known = _by_name()
    if key in known:
        return known[key]
    if (size := _SIZE.fullmatch(key)) is not None and int(size[1]) > 0:
        return Card(f"a card of {size[1]} GB", "cuda", "", float(size[1]), None, (key,), "8.0")
    if key.isdecimal():
        raise UsageError(f"'{word}' is no card: write a size with its unit, such as {key}gb")
    import difflib

    usual = {_folded(name): name for one in CARDS for name in one.names}
    begin = [name for folded, name in usual.items() if len(key) > 1 and folded.startswith(key)]
    near = [*begin, *(usual[folded] for folded in difflib.get_close_matches(key, usual, n=4, cutoff=0.6))]
    if not near:
        raise unknown("card", word, [one.names[0] for one in CARDS])
    raise UsageError(
        f"unknown card '{word}'. Near: {', '.join(list(dict.fromkeys(near))[:5])}. Or a size, such as 24gb"
    )


def _folded(word: str) -> str:
    return re.sub(r"[\s_\-/]+", "", _VENDOR_WORDS.sub("", word.casefold()))


@cache
def _by_name() -> Mapping[str, Card]:
    found: dict[str, Card] = {}
    for one in CARDS:  # of chips with the same name, the one with most memory comes first
        for name in (*one.names, one.device_name, one.title):
            found.setdefault(_folded(name), one)
    return found


def _cards() -> Iterator[Card]:
    for title, device, gib, watts, capability, *names in _NVIDIA:
        yield Card(f"NVIDIA {title}", "cuda", f"NVIDIA {device}", gib, watts, tuple(names), capability)
    for title, gib, power_w, architecture, *names in _AMD:
        whole = title.split(",", maxsplit=1)[0]
        yield Card(f"AMD {title}", "rocm", f"AMD Instinct {whole}", gib, power_w, tuple(names), architecture)
    yield from _INTEL
    for chip, sizes in _APPLE.items():
        # The largest has the chip's own name; any can be named with its size.
        for gib in sorted(sizes, reverse=True):
            name = chip.casefold().replace(" ", "-")
            own = (name, f"{name}-{gib}gb") if gib == max(sizes) else (f"{name}-{gib}gb",)
            yield Card(f"Apple {chip} {gib} GB", "mps", f"Apple {chip}", gib, None, own)


# Title, name that the driver prints, GB, W, compute capability, what people type.
_NVIDIA = (
    ("T4", "T4", 16, 70, "7.5", "t4", "t4-16gb"),
    ("V100 SXM2 16 GB", "V100-SXM2-16GB", 16, 300, "7.0", "v100-16gb", "v100", "v100-sxm2"),
    ("V100 SXM2 32 GB", "V100-SXM2-32GB", 32, 300, "7.0", "v100-32gb", "v100-sxm2-32gb"),
    ("V100 PCIe 16 GB", "V100-PCIE-16GB", 16, 250, "7.0", "v100-pcie", "v100-pcie-16gb"),
    ("V100 PCIe 32 GB", "V100-PCIE-32GB", 32, 250, "7.0", "v100-pcie-32gb"),
    ("A10", "A10", 24, 150, "8.6", "a10", "a10-24gb"),
    ("A30", "A30", 24, 165, "8.0", "a30", "a30-24gb"),
    ("A40", "A40", 48, 300, "8.6", "a40", "a40-48gb"),
    ("RTX A6000", "RTX A6000", 48, 300, "8.6", "rtx-a6000", "a6000"),
    ("RTX 6000 Ada", "RTX 6000 Ada Generation", 48, 300, "8.9", "rtx-6000-ada", "6000-ada"),
    ("A100 SXM 40 GB", "A100-SXM4-40GB", 40, 400, "8.0", "a100-40gb", "a100-sxm-40gb", "a100-sxm4-40gb"),
    ("A100 PCIe 40 GB", "A100-PCIE-40GB", 40, 250, "8.0", "a100-pcie-40gb"),
    ("A100 SXM 80 GB", "A100-SXM4-80GB", 80, 400, "8.0", "a100-80gb", "a100", "a100-sxm", "a100-sxm-80gb", "a100-sxm4"),
    ("A100 PCIe 80 GB", "A100 80GB PCIe", 80, 300, "8.0", "a100-pcie", "a100-pcie-80gb"),
    ("L4", "L4", 24, 72, "8.9", "l4", "l4-24gb"),
    ("L40", "L40", 48, 300, "8.9", "l40", "l40-48gb"),
    ("L40S", "L40S", 48, 350, "8.9", "l40s", "l40s-48gb"),
    ("H100 SXM 80 GB", "H100 80GB HBM3", 80, 700, "9.0", "h100-80gb", "h100", "h100-sxm", "h100-sxm5", "h100-sxm-80gb"),
    ("H100 PCIe 80 GB", "H100 PCIe", 80, 350, "9.0", "h100-pcie", "h100-pcie-80gb"),
    ("H100 NVL 94 GB", "H100 NVL", 94, 400, "9.0", "h100-nvl", "h100-nvl-94gb", "h100-94gb"),
    ("H200 SXM 141 GB", "H200", 141, 700, "9.0", "h200", "h200-141gb", "h200-sxm"),
    ("H200 NVL 141 GB", "H200 NVL", 141, 600, "9.0", "h200-nvl"),
    ("B200 180 GB", "B200", 180, 1000, "10.0", "b200", "b200-180gb", "b200-sxm"),
    ("GB200 186 GB", "GB200", 186, 1200, "10.0", "gb200", "gb200-186gb"),
    ("GeForce RTX 3090", "GeForce RTX 3090", 24, 350, "8.6", "rtx3090", "3090"),
    ("GeForce RTX 3090 Ti", "GeForce RTX 3090 Ti", 24, 450, "8.6", "rtx3090ti", "3090ti"),
    ("GeForce RTX 4080", "GeForce RTX 4080", 16, 320, "8.9", "rtx4080", "4080"),
    ("GeForce RTX 4090", "GeForce RTX 4090", 24, 450, "8.9", "rtx4090", "4090", "rtx4090-24gb"),
    ("GeForce RTX 5080", "GeForce RTX 5080", 16, 360, "12.0", "rtx5080", "5080"),
    ("GeForce RTX 5090", "GeForce RTX 5090", 32, 575, "12.0", "rtx5090", "5090", "rtx5090-32gb"),
)
# Title, GB, W, architecture, what people type. The power of an MI250X is printed for both of its dies together.
_AMD = (
    ("MI210", 64, 300, "gfx90a", "mi210", "mi210-64gb"),
    ("MI250, one die", 64, None, "gfx90a", "mi250"),
    ("MI250X, one die", 64, None, "gfx90a", "mi250x", "mi250x-64gb"),
    ("MI300X", 192, 750, "gfx942", "mi300x", "mi300", "mi300x-192gb"),
    ("MI325X", 256, 1000, "gfx942", "mi325x", "mi325", "mi325x-256gb"),
    ("MI355X", 288, 1400, "gfx950", "mi355x", "mi355", "mi355x-288gb"),
)
_INTEL = (
    Card("Intel Arc B580", "xpu", "Intel Arc B580 Graphics", 12, 190, ("b580", "arc-b580", "b580-12gb")),
    Card("Intel Arc A770 16 GB", "xpu", "Intel Arc A770 Graphics", 16, 225, ("a770", "arc-a770", "a770-16gb")),
    Card(
        "Intel Max 1550, one stack",
        "xpu",
        "Intel Data Center GPU Max 1550",
        64,
        None,
        ("max1550", "max-1550", "max1550-64gb"),
    ),
    Card("Intel Max 1100", "xpu", "Intel Data Center GPU Max 1100", 48, 300, ("max1100", "max-1100")),
)
# GB of unified memory that a chip was sold with; Apple prints no power of a chip.
_APPLE: Mapping[str, tuple[int, ...]] = {
    "M1": (8, 16), "M1 Pro": (16, 32), "M1 Max": (32, 64), "M1 Ultra": (64, 128),
    "M2": (8, 16, 24), "M2 Pro": (16, 32), "M2 Max": (32, 64, 96), "M2 Ultra": (64, 128, 192),
    "M3": (8, 16, 24), "M3 Pro": (18, 36), "M3 Max": (36, 48, 64, 96, 128), "M3 Ultra": (96, 256, 512),
    "M4": (16, 24, 32), "M4 Pro": (24, 48, 64), "M4 Max": (36, 48, 64, 128),
}  # fmt: skip

CARDS: tuple[Card, ...] = tuple(_cards())
