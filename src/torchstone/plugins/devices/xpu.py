"""Intel GPUs, through torch's XPU backend."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._sightings import INTEL, PCI, described, hidden, of_their_own
from torchstone.plugins.devices._torch_device import (
    TorchDevice,
    bus_id,
    devices_by_torch,
    pick,
    properties,
    torch_or_reason,
)
from torchstone.plugins.machine_protocols import Device, Vendor


class XpuDevice(TorchDevice):
    """An open Intel GPU."""

    def precision_objection(self, precision: str) -> str | None:
        """Say that BF16 or FP16 is missing, asking torch and the device."""
        native = getattr(self._module, "is_bf16_supported", None)
        if precision == "bf16" and native is not None and not native():
            return f"{self._info.name} has no bf16"
        half = getattr(self._module.get_device_properties(self._info.index), "has_fp16", True)
        if precision == "fp16" and not half:
            return f"{self._info.name} has no fp16"
        return super().precision_objection(precision)

    def attention(self) -> Sequence[str]:
        """Return the kernels that torch has here."""
        return ("flash", "math")


class Xpu(Vendor):
    """Finds and opens Intel GPUs."""

    describes = "Intel GPUs (XPU)"

    def __init__(
        self, drm: Path = Path("/sys/class/drm"), pci: Path = PCI, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._drm, self._pci, self._environment = drm, pci, environment

    def probe(self) -> Sequence[DeviceInfo]:
        """Return the Intel GPUs that torch sees."""
        return devices_by_torch(_devices)

    def missing(self) -> str:
        """Say what torch was built for, and whether the kernel shows an Intel GPU."""
        torch, version = torch_or_reason()
        if torch is None:
            return version
        seen = "the kernel shows an Intel GPU" if self._intel() else f"no Intel GPU under {self._drm}"
        if getattr(torch.version, "xpu", None) is None:
            return f"{version} is a build without XPU; {seen}"
        return f"{version} is built for XPU but sees no device; {seen}"

    def seen(self) -> Sequence[str]:
        """Return the cards that the kernel shows, those built into a processor left out."""
        if hidden(self._environment, "ZE_AFFINITY_MASK"):
            return ()
        return described(of_their_own(INTEL, self._pci), "Intel")

    def open(self, index: int) -> Device:
        """Open an Intel GPU and make it torch's current one."""
        info = pick("xpu", self.probe(), index, self.missing)
        torch, _ = torch_or_reason()
        return XpuDevice(torch, torch.get_device_module("xpu"), info)

    def pretend(self, info: DeviceInfo) -> Device:
        """Return an Intel GPU that is not here: all of those with a datasheet have fp16 and bf16."""
        torch, _ = torch_or_reason()
        return XpuDevice(torch, SimpleNamespace(get_device_properties=lambda _: None), info)

    def _intel(self) -> bool:
        try:
            return any(p.read_text(encoding="ascii").strip() == "0x8086" for p in self._drm.glob("card*/device/vendor"))
        except OSError:  # not Linux, or not ours to read
            return False


def _devices(torch: Any) -> Sequence[DeviceInfo]:
    runtime = getattr(torch.version, "xpu", None)
    return [
        DeviceInfo(
            kind="xpu",
            torch_kind="xpu",
            vendor="Intel",
            index=index,
            name=props.name,
            memory_bytes=getattr(props, "total_memory", None),
            driver=getattr(props, "driver_version", None),
            runtime=str(runtime) if runtime else None,
            uuid=_text(getattr(props, "uuid", None)),
            bus_id=bus_id(props),
            precisions=_precisions(props),
        )
        for index, props in enumerate(properties(torch, "xpu"))
    ]


def _precisions(props: Any) -> tuple[str, ...]:
    has = {"bf16": "has_bfloat16_conversions", "fp16": "has_fp16"}
    return ("fp32", *(word for word, name in has.items() if getattr(props, name, False)))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


PLUGIN: Vendor = Xpu()
