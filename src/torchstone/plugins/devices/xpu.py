"""Intel GPUs, through torch's XPU backend."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._torch_device import INTEL, TorchDevice, TorchVendor, cards, properties, torch_or_reason
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


class Xpu(TorchVendor):
    """Finds and opens Intel GPUs."""

    describes = "Intel GPUs (XPU)"
    kind, backend, maker, pci_vendor = "xpu", "xpu", "Intel", INTEL
    hiding = ("ZE_AFFINITY_MASK",)
    device = XpuDevice

    def missing(self) -> str:
        torch, version = torch_or_reason()
        if torch is None:
            return version
        found = "the kernel shows an Intel GPU" if cards(INTEL, self._pci) else f"no Intel GPU under {self._pci}"
        if getattr(torch.version, "xpu", None) is None:
            return f"{version} is a build without XPU; {found}"
        return f"{version} is built for XPU but sees no device; {found}"

    def pretend(self, info: DeviceInfo) -> Device:
        """Return an Intel GPU that is not here: all of those with a datasheet have fp16 and bf16."""
        torch, _ = torch_or_reason()
        return XpuDevice(torch, SimpleNamespace(get_device_properties=lambda _: None), info)

    def devices(self, torch: Any) -> Sequence[DeviceInfo]:
        runtime = str(getattr(torch.version, "xpu", None) or "") or None
        return [
            self.described(
                index,
                props,
                driver=getattr(props, "driver_version", None),
                runtime=runtime,
                precisions=_precisions(props),
            )
            for index, props in enumerate(properties(torch, "xpu"))
        ]


def _precisions(props: Any) -> tuple[str, ...]:
    has = {"bf16": "has_bfloat16_conversions", "fp16": "has_fp16"}
    return ("fp32", *(word for word, name in has.items() if getattr(props, name, False)))


PLUGIN: Vendor = Xpu()
