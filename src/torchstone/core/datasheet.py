"""What vendors promise of a device, by the name that its driver prints: dense matrix products, memory bandwidth.

Three traps this table is made against. Datasheets print the rate with 2:4 sparsity first, twice the dense one: it is
kept apart here, and is never a peak. GeForce cards multiply fp16 at half the rate when they add up in fp32, which is
what torch does: that rate is here. And cards of one family differ much: "H100 PCIe" is not "H100 SXM", a laptop's
"RTX 4070" is not a desktop's: a name matches as a whole or not at all. Where a name stands for several cards, the size
of the memory decides; where that is unknown, or a figure was never published, there is no figure. fp32 is the rate of
a product in fp32: on AMD Instinct that of the matrix cores. Figures are those of what torch calls one device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

_TERA, _GIGA = 1e12, 1e9


class DatasheetPeak(NamedTuple):
    """A vendor's figure (FLOP/s, of int8 operations/s; bytes/s) and the document; `sparse`: with 2:4 sparsity."""

    value: float
    source: str
    sparse: float | None = None


class _CardRow(NamedTuple):
    """`name`: a pattern of the whole name; `gib`: the memory a card must have, where the name alone does not tell."""

    name: str
    source: str
    bandwidth_gb_s: float
    dense_t: Mapping[str, float]  # in 10¹² operations/s
    sparsity: bool = False
    gib: tuple[float, float] = (0.0, 1e9)


def dense_peak_flops(device_name: str, precision: str, memory_bytes: int | None = None) -> DatasheetPeak | None:
    """Return the dense rate of matrix products in FLOP/s (int8: operations/s), or None where none is known."""
    row = _row(device_name, memory_bytes)
    dense = None if row is None else row.dense_t.get(precision)
    if row is None or dense is None:
        return None
    sparse = 2.0 * dense * _TERA if row.sparsity and precision != "fp32" else None
    return DatasheetPeak(dense * _TERA, row.source, sparse)


def bandwidth(device_name: str, memory_bytes: int | None = None) -> DatasheetPeak | None:
    """Return the bandwidth of the device's memory in bytes/s, or None where none is known."""
    row = _row(device_name, memory_bytes)
    return None if row is None else DatasheetPeak(row.bandwidth_gb_s * _GIGA, row.source)


def folded(device_name: str) -> str:
    """Return a name without (R) and (TM), in small letters, single spaces: as names are compared."""
    return " ".join(re.sub(r"\((r|tm)\)", "", device_name.casefold()).split())


@cache
def _row(device_name: str, memory_bytes: int | None) -> _CardRow | None:
    name = folded(device_name)
    found = [row for row in _ROWS if re.fullmatch(row.name, name)]
    if memory_bytes is not None:
        found = [row for row in found if row.gib[0] <= memory_bytes / 2**30 <= row.gib[1]]
    return found[0] if len(found) == 1 else None


def _nvidia(name: str) -> str:
    return rf"(nvidia )?{name}"


def _geforce(card: str, fp32: float, gb_s: float, document: str, gib: tuple[float, float] = (0.0, 1e9)) -> _CardRow:
    """Return the row of a GeForce card: its SM multiplies tf32 once, bf16 twice, int8 8 times as fast as fp32."""
    rates = {"fp32": fp32, "tf32": fp32, "bf16": 2.0 * fp32, "fp16": 2.0 * fp32, "int8": 8.0 * fp32}
    fp8 = {} if document is _AMPERE else {"fp8": 4.0 * fp32}  # Ampere has none
    return _CardRow(_nvidia(f"(geforce )?rtx {card}"), document, gb_s, {**rates, **fp8}, sparsity=True, gib=gib)


_AMPERE = "NVIDIA Ampere GA102 GPU Architecture whitepaper v2.1 (rates per SM), GeForce RTX 30 specifications"
_ADA = "NVIDIA Ada GPU Architecture whitepaper v2.1 (rates per SM), GeForce RTX 40 specifications"
_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper v1.1 (rates per SM), GeForce RTX 50 specifications"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet (prints the sparse rates: dense is half)"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet (prints the sparse rates: dense is half)"
_GH200 = "NVIDIA GH200 Grace Hopper Superchip datasheet (prints the sparse rates: dense is half)"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet"
_V100 = "NVIDIA V100 Tensor Core GPU datasheet"
_MI200 = "AMD Instinct {} accelerator datasheet, of one of its two dies, which torch calls a device"
_XE_HPC = "Intel oneAPI GPU Optimization Guide (operations per clock of an Xe core), Intel Data Center GPU Max {}: {}"
_APPLE = "Apple newsroom, announcement of {}; of its largest configuration"
_INTEL = r"intel data center gpu "

_HOPPER_SXM = {"fp32": 67.0, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9, "int8": 1978.9}
_HOPPER_NVL = {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5, "int8": 1670.5}
_GA100 = {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0, "int8": 624.0}
_MI300X = {"fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9, "int8": 2614.9}

_DATA_CENTER: Sequence[_CardRow] = (
    _CardRow(_nvidia(r"(tesla )?v100-sxm2-(16|32)gb"), _V100, 900.0, {"fp32": 15.7, "fp16": 125.0}),
    _CardRow(_nvidia(r"(tesla )?v100-pcie-(16|32)gb"), _V100, 900.0, {"fp32": 14.0, "fp16": 112.0}),
    _CardRow(_nvidia(r"(tesla )?v100s-pcie-32gb"), _V100, 1134.0, {"fp32": 16.4, "fp16": 130.0}),
    _CardRow(_nvidia(r"(tesla )?t4"), "NVIDIA T4 datasheet, T4 product brief (bandwidth)", 320.0,
         {"fp32": 8.1, "fp16": 65.0, "int8": 130.0}),
    _CardRow(_nvidia("a10"), "NVIDIA A10 Tensor Core GPU datasheet", 600.0,
         {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0, "int8": 250.0}, sparsity=True),
    _CardRow(_nvidia("a30"), "NVIDIA A30 Tensor Core GPU datasheet", 933.0,
         {"fp32": 10.3, "tf32": 82.0, "bf16": 165.0, "fp16": 165.0, "int8": 330.0}, sparsity=True),
    _CardRow(_nvidia("a40"), "NVIDIA A40 GPU datasheet", 696.0,
         {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7, "int8": 299.3}, sparsity=True),
    _CardRow(_nvidia("a100-(sxm4|pcie)-40gb"), _A100, 1555.0, _GA100, sparsity=True),
    _CardRow(_nvidia("a100 80gb pcie"), _A100, 1935.0, _GA100, sparsity=True),
    _CardRow(_nvidia("a100-sxm4-80gb"), _A100, 2039.0, _GA100, sparsity=True),
    _CardRow(_nvidia("l4"), "NVIDIA L4 Tensor Core GPU datasheet (prints the sparse rates: dense is half)", 300.0,
         {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5, "int8": 242.5}, sparsity=True),
    _CardRow(_nvidia("l40"), "NVIDIA L40 GPU datasheet", 864.0,
         {"fp32": 90.5, "tf32": 90.5, "bf16": 181.05, "fp16": 181.05, "fp8": 362.0, "int8": 362.0}, sparsity=True),
    _CardRow(_nvidia("l40s"), "NVIDIA L40S GPU datasheet", 864.0,
         {"fp32": 91.6, "tf32": 183.0, "bf16": 362.05, "fp16": 362.05, "fp8": 733.0, "int8": 733.0}, sparsity=True),
    _CardRow(_nvidia("rtx a6000"), "NVIDIA Ampere GA102 GPU Architecture whitepaper v2.1, RTX A6000", 768.0,
         {"fp32": 38.7, "tf32": 77.4, "bf16": 154.8, "fp16": 154.8, "int8": 309.7}, sparsity=True),
    _CardRow(_nvidia("rtx 6000 ada generation"), "NVIDIA Ada GPU Architecture whitepaper v2.1, RTX 6000 Ada", 960.0,
         {"fp32": 91.1, "tf32": 182.1, "bf16": 364.2, "fp16": 364.2, "fp8": 728.5, "int8": 728.5}, sparsity=True),
    _CardRow(_nvidia("h100 pcie"), _H100, 2000.0,
         {"fp32": 51.2, "tf32": 378.0, "bf16": 756.5, "fp16": 756.5, "fp8": 1513.0, "int8": 1513.0}, sparsity=True),
    _CardRow(_nvidia("h100 80gb hbm3"), _H100, 3350.0, _HOPPER_SXM, sparsity=True),
    _CardRow(_nvidia("h100 nvl"), f"{_H100}, of one card of the pair", 3900.0, _HOPPER_NVL, sparsity=True),
    _CardRow(_nvidia("h200"), _H200, 4800.0, _HOPPER_SXM, sparsity=True),
    _CardRow(_nvidia("h200 nvl"), _H200, 4800.0, _HOPPER_NVL, sparsity=True),
    _CardRow(_nvidia("gh200 480gb"), _GH200, 4000.0, _HOPPER_SXM, sparsity=True),
    _CardRow(_nvidia("gh200 144g hbm3e"), _GH200, 4900.0, _HOPPER_SXM, sparsity=True),
    _CardRow(_nvidia("b200"), "NVIDIA DGX B200 and HGX B200 datasheets, an eighth of it (fp16 is printed sparse)",
         8000.0, {"fp32": 75.0, "tf32": 1125.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0, "int8": 4500.0},
         sparsity=True),
    _CardRow(_nvidia("gb200"), "NVIDIA GB200 Grace Blackwell Superchip datasheet, half of it (printed sparse)", 8000.0,
         {"fp32": 80.0, "tf32": 1250.0, "bf16": 2500.0, "fp16": 2500.0, "fp8": 5000.0, "int8": 5000.0}, sparsity=True),
    _CardRow(r"amd instinct mi100", "AMD Instinct MI100 accelerator datasheet", 1228.8,
         {"fp32": 46.1, "bf16": 92.3, "fp16": 184.6, "int8": 184.6}),
    _CardRow(r"amd instinct mi210", "AMD Instinct MI210 accelerator datasheet", 1638.4,
         {"fp32": 45.3, "bf16": 181.0, "fp16": 181.0, "int8": 181.0}),
    _CardRow(r"amd instinct mi250", _MI200.format("MI250"), 1638.4,
         {"fp32": 45.25, "bf16": 181.05, "fp16": 181.05, "int8": 181.05}),
    _CardRow(r"amd instinct mi250x", _MI200.format("MI250X"), 1638.4,
         {"fp32": 47.85, "bf16": 191.5, "fp16": 191.5, "int8": 191.5}),
    _CardRow(r"amd instinct mi300x", "AMD Instinct MI300X accelerator datasheet", 5300.0, _MI300X, sparsity=True),
    _CardRow(r"amd instinct mi325x", "AMD Instinct MI325X accelerator datasheet", 6000.0, _MI300X, sparsity=True),
    _CardRow(r"amd instinct mi355x", "AMD Instinct MI355X GPU datasheet", 8000.0,
         {"fp32": 157.3, "bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2, "int8": 5033.2}, sparsity=True),
    _CardRow(r"amd instinct mi300a", "AMD Instinct MI300A accelerator datasheet", 5300.0,
         {"fp32": 122.6, "tf32": 490.3, "bf16": 980.6, "fp16": 980.6, "fp8": 1961.2, "int8": 1961.2}, sparsity=True),
    # Both stacks, or one of them: as ZE_FLAT_DEVICE_HIERARCHY has it. The memory tells.
    _CardRow(f"{_INTEL}max 1550", _XE_HPC.format(1550, "64 Xe cores at 1.6 GHz, one stack of two"), 1638.4,
         {"fp32": 26.2, "tf32": 209.7, "bf16": 419.4, "fp16": 419.4, "int8": 838.9}, gib=(0.0, 80.0)),
    _CardRow(f"{_INTEL}max 1550", _XE_HPC.format(1550, "128 Xe cores at 1.6 GHz, both stacks"), 3276.8,
         {"fp32": 52.4, "tf32": 419.4, "bf16": 838.9, "fp16": 838.9, "int8": 1677.7}, gib=(80.0, 160.0)),
    _CardRow(f"{_INTEL}max 1100", _XE_HPC.format(1100, "56 Xe cores at 1.55 GHz"), 1228.8,
         {"fp32": 22.2, "tf32": 177.8, "bf16": 355.5, "fp16": 355.5, "int8": 711.1}),
    _CardRow(f"{_INTEL}flex 170", "Intel product specifications, Data Center GPU Flex 170", 576.0, {}),
)  # fmt: skip

_DESKTOP: Sequence[_CardRow] = (
    _geforce("3060 ti", 16.2, 448.0, _AMPERE),
    _geforce("3070", 20.3, 448.0, _AMPERE),
    _geforce("3070 ti", 21.7, 608.0, _AMPERE),
    _geforce("3080", 29.8, 760.0, _AMPERE, gib=(0.0, 11.0)),
    _geforce("3080", 30.6, 912.0, _AMPERE, gib=(11.0, 16.0)),
    _geforce("3080 ti", 34.1, 912.0, _AMPERE),
    _geforce("3090", 35.6, 936.0, _AMPERE),
    _geforce("3090 ti", 40.0, 1008.0, _AMPERE),
    _geforce("4060", 15.1, 272.0, _ADA),
    _geforce("4060 ti", 22.1, 288.0, _ADA),
    _geforce("4070", 29.1, 504.0, _ADA),
    _geforce("4070 super", 35.5, 504.0, _ADA),
    _geforce("4070 ti", 40.1, 504.0, _ADA),
    _geforce("4070 ti super", 44.1, 672.0, _ADA),
    _geforce("4080", 48.7, 716.8, _ADA),
    _geforce("4080 super", 52.2, 736.0, _ADA),
    _geforce("4090", 82.6, 1008.0, _ADA),
    _geforce("5070", 30.8, 672.0, _BLACKWELL),
    _geforce("5070 ti", 43.9, 896.0, _BLACKWELL),
    _geforce("5080", 56.3, 960.0, _BLACKWELL),
    _geforce("5090", 104.8, 1792.0, _BLACKWELL),
    _CardRow(r"(amd )?radeon rx 7900 xtx", "AMD Radeon RX 7900 XTX specifications, AMD RDNA 3 ISA guide", 960.0,
         {"fp32": 61.4, "bf16": 122.8, "fp16": 122.8, "int8": 122.8}),
    _CardRow(r"intel arc a770 graphics", "Intel product specifications, Arc A770 8 GB", 512.0, {"int8": 262.0},
         gib=(0.0, 10.0)),
    _CardRow(r"intel arc a770 graphics", "Intel product specifications, Arc A770 16 GB", 560.0, {"int8": 262.0},
         gib=(10.0, 20.0)),
    _CardRow(r"intel arc b580 graphics", "Intel product specifications, Arc B580", 456.0, {"int8": 233.0}),
)  # fmt: skip

_APPLE_CHIPS: Sequence[tuple[str, float | None, float]] = (  # TFLOP/s in fp32 (not published since the M3), GB/s
    ("M1", 2.6, 68.25), ("M1 Pro", 5.2, 200.0), ("M1 Max", 10.4, 400.0), ("M1 Ultra", 21.0, 800.0),
    ("M2", 3.6, 100.0), ("M2 Pro", 6.8, 200.0), ("M2 Max", 13.6, 400.0), ("M2 Ultra", 27.2, 800.0),
    ("M3", None, 100.0), ("M3 Pro", None, 150.0), ("M3 Max", None, 400.0), ("M3 Ultra", None, 819.0),
    ("M4", None, 120.0), ("M4 Pro", None, 273.0), ("M4 Max", None, 546.0),
)  # fmt: skip

_ROWS: Sequence[_CardRow] = (
    *_DATA_CENTER,
    *_DESKTOP,
    *(
        _CardRow(f"apple {chip.casefold()}", _APPLE.format(chip), gb_s, {} if fp32 is None else {"fp32": fp32})
        for chip, fp32, gb_s in _APPLE_CHIPS
    ),
)
