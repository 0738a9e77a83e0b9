"""The CPU: always there, synchronous, timed by the host clock."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torchstone.core.cores import worthwhile
from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._torch_device import (
    HALF,
    HostStopwatch,
    compiler,
    no_attention,
    no_compiler,
    no_tf32,
    torch_or_reason,
)
from torchstone.plugins.machine_protocols import Device, Stopwatch, Vendor

_VENDORS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon", "0x41": "Arm", "0xc0": "Ampere"}
# Instructions for products in a number format: of AMX, AVX-512 and Arm, as the kernel names them.
_NATIVE = {"bf16": {"amx_bf16", "avx512_bf16", "bf16"}, "fp16": {"amx_fp16", "avx512_fp16"}}
_COMPILERS = {"Linux": "g++", "Darwin": "clang++", "Windows": "cl"}  # where torch.compile looks without CXX


class CpuDevice:
    """The CPU in the process of a trial: each call returns when its work is done."""

    def __init__(self, torch: Any, info: DeviceInfo) -> None:
        self.torch_device: Any = torch.device("cpu")
        self._info = info

    def synchronize(self) -> None:
        """Do nothing: a CPU operator has finished when it returns."""

    def stopwatch(self) -> Stopwatch:
        return HostStopwatch()

    def memory(self) -> Mapping[str, int]:
        """Return nothing: torch does not count what it allocates on the CPU (see rss_bytes)."""
        return {}

    def objection(self, axis: str, value: Scalar) -> str | None:
        if axis == "precision" and value == "tf32":
            return no_tf32(self._info)
        if axis == "sdpa":
            return no_attention(self._info, str(value), ("flash", "math"))
        if axis == "pin_memory" and value is True:
            return "pinning needs an accelerator: there is none to transfer to"
        if axis == "compile" and value not in ("off", None):
            usual = _COMPILERS.get(platform.system(), "g++")
            return None if compiler("CXX", usual) else no_compiler("C++", "CXX", usual)
        return None

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Return the threads worth having, and the layout that oneDNN's convolutions take without reordering."""
        if axis == "threads":
            return worthwhile()
        if axis != "channels_last":
            return None
        precision = str(configuration.get("precision"))
        wide = precision == "fp32" and self._info.compute_capability == "AVX512"
        if wide or (precision in HALF and precision in self._info.precisions):
            return True, f"oneDNN's {precision} convolutions read NHWC as it is"
        return False, "known to be faster on a CPU in fp32 with AVX-512, and in native bf16 and fp16"


class Cpu(Vendor):
    """Finds and opens the CPU."""

    describes = "the CPU, with all its cores"

    def __init__(self, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
        self._cpuinfo = cpuinfo

    def probe(self) -> Sequence[DeviceInfo]:
        facts = _facts(self._cpuinfo)
        maker = facts.get("vendor_id") or facts.get("CPU implementer", "")
        apple = (platform.system(), platform.machine()) == ("Darwin", "arm64")
        vendor = "Apple" if apple else _VENDORS.get(maker, maker)
        name = facts.get("model name") or _sysctl_name() or platform.processor() or platform.machine() or "CPU"
        device = DeviceInfo(
            "cpu",
            "cpu",
            vendor or "unknown",
            0,
            name,
            memory_bytes=_memory(),
            compute_capability=_instructions(),
            precisions=_precisions(facts),
        )
        return [device]

    def missing(self) -> str:
        return "there is always a CPU"

    def open(self, index: int) -> Device:
        torch, reason = torch_or_reason()
        if torch is None:
            raise Unsupported(reason)
        if index != 0:
            raise Unsupported(f"no device cpu:{index}: all cores together are one device, cpu")
        return CpuDevice(torch, self.probe()[0])


def _facts(cpuinfo: Path) -> dict[str, str]:
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:  # not Linux
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _precisions(facts: Mapping[str, str]) -> tuple[str, ...]:
    has = {*facts.get("flags", "").split(), *facts.get("Features", "").split()}  # x86 and Arm
    return ("fp32", *(word for word, instructions in _NATIVE.items() if has & instructions))


def _sysctl_name() -> str | None:
    if platform.system() != "Darwin":
        return None
    import subprocess

    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):  # a sandbox without sysctl: platform.processor() is next
        return None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _instructions() -> str | None:
    try:
        return str(import_module("torch").backends.cpu.get_cpu_capability())
    except (ImportError, AttributeError, RuntimeError, OSError):  # without torch nobody knows what it would use
        return None


PLUGIN: Vendor = Cpu()
