"""AMD devices, through torch's ROCm build, which calls them cuda."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._torch_device import (
    AMD,
    HALF,
    PCI,
    TorchDevice,
    TorchVendor,
    properties,
    torch_or_reason,
)
from torchstone.plugins.machine_protocols import Vendor

_INSTINCT = ("gfx90a", "gfx94", "gfx95")  # MI200, MI300, MI350: matrix cores with BF16
_RADEON = ("gfx11", "gfx12")  # RDNA 3 and 4: wave matrix instructions, BF16 among them


class RocmDevice(TorchDevice):
    """An open AMD device."""

    def layout_preference(self, precision: str) -> tuple[bool, str] | None:
        """Say that MIOpen takes NHWC on Instinct; on Radeon it is slower there (pytorch/pytorch#170764)."""
        if not str(self._info.compute_capability).startswith(_INSTINCT) or precision not in HALF:
            return False, "MIOpen is faster with NHWC only on Instinct MI200 or newer, in half precision"
        if _nhwc_in_use(self._info.runtime):
            return True, f"MIOpen takes {precision} convolutions as NHWC"
        return False, "before ROCm 7 torch takes NHWC only with PYTORCH_MIOPEN_SUGGEST_NHWC=1"

    def attention(self) -> Sequence[str]:
        """Return the kernels that torch has here: cuDNN is NVIDIA's."""
        return ("flash", "efficient", "math")


class Rocm(TorchVendor):
    """Finds and opens AMD devices."""

    describes = "AMD GPUs (ROCm)"
    kind, backend, maker, pci_vendor = "rocm", "cuda", "AMD", AMD
    hiding = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    device = RocmDevice

    def __init__(
        self, driver: Path = Path("/sys/module/amdgpu"), pci: Path = PCI, environment: Mapping[str, str] = os.environ
    ) -> None:
        super().__init__(pci, environment)
        self._driver_folder = driver

    def missing(self) -> str:
        torch, version = torch_or_reason()
        if torch is None:
            return version
        driver = f"no AMD kernel driver found (no {self._driver_folder})"
        if self._driver_folder.is_dir():
            driver = f"the kernel driver amdgpu {self._driver() or ''}".rstrip() + " is there"
        if not torch.version.hip:
            return f"{version} is a build without ROCm; {driver}"
        return f"{version} is built for ROCm {torch.version.hip} but sees no device; {driver}"

    def devices(self, torch: Any) -> Sequence[DeviceInfo]:
        return [
            self.described(
                index,
                props,
                driver=self._driver(),
                runtime=torch.version.hip,
                compute_capability=_architecture(props),
                precisions=_precisions(_architecture(props)),
            )
            for index, props in enumerate(properties(torch, "cuda") if torch.version.hip else ())
        ]

    def _driver(self) -> str | None:
        try:
            return (self._driver_folder / "version").read_text(encoding="ascii").strip() or None
        except OSError:  # the driver of the kernel itself has no version of its own
            return None


def _architecture(props: Any) -> str | None:
    name = getattr(props, "gcnArchName", None)
    return str(name).partition(":")[0] if name else None  # gfx90a:sramecc+:xnack- without its switches


def _precisions(architecture: str | None) -> tuple[str, ...]:
    modern = str(architecture).startswith((*_INSTINCT, *_RADEON))
    return ("fp32", "bf16", "fp16") if modern else ("fp32", "fp16")


def _nhwc_in_use(runtime: str | None) -> bool:
    """Tell whether torch hands NHWC to MIOpen: as the variable says, else from ROCm 7 on."""
    said = os.environ.get("PYTORCH_MIOPEN_SUGGEST_NHWC")
    major = str(runtime).partition(".")[0]
    return said == "1" if said else major.isdigit() and int(major) >= 7


PLUGIN: Vendor = Rocm()
