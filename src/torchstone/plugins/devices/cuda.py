"""NVIDIA devices, through torch's CUDA backend."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._torch_device import (
    HALF,
    NVIDIA,
    PCI,
    TorchDevice,
    TorchVendor,
    hides_devices,
    properties,
    torch_or_reason,
)
from torchstone.plugins.machine_protocols import Vendor


def slices_of(library: Any = None) -> Mapping[str, str]:
    """Return the UUID of every slice with its name; nothing without NVML, or where no card is divided."""
    try:
        nvml = library or import_module("pynvml")
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
        devices_by_torch = dict(_slices(nvml))
        nvml.nvmlShutdown()
    except (nvml.NVMLError, AttributeError):  # no driver, or a pynvml from before there was MIG
        return {}
    return devices_by_torch


def _slices(nvml: Any) -> Iterator[tuple[str, str]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        with contextlib.suppress(nvml.NVMLError):  # a card that cannot be divided
            for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
                with contextlib.suppress(nvml.NVMLError):  # this place holds no slice
                    one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number)
                    yield str(nvml.nvmlDeviceGetUUID(one)), f"{nvml.nvmlDeviceGetName(one)} of card {index}"


class CudaDevice(TorchDevice):
    """An open NVIDIA device."""

    def precision_objection(self, precision: str) -> str | None:
        """Say that BF16 or TF32 is older than this device's tensor cores."""
        capability = self._info.compute_capability or "0.0"
        if int(capability.partition(".")[0]) >= 8:
            return None
        card = f"{self._info.name} (compute capability {capability})"
        if precision == "bf16":
            return f"bf16 would be emulated on {card}: it needs 8.0 (Ampere) or newer; fp16 runs natively"
        return f"TF32 needs compute capability 8.0 (Ampere) or newer; {card} is older" if precision == "tf32" else None

    def layout_preference(self, precision: str) -> tuple[bool, str] | None:
        """Say that tensor cores read half precision as NHWC (NVIDIA, Convolutional Layers User Guide)."""
        if precision in HALF and precision in self._info.precisions:
            return True, f"tensor cores take {precision} convolutions as NHWC"
        return False, "tensor cores take NHWC in half precision, and this is none"

    def attention(self) -> Sequence[str]:
        """Return the kernels that torch has for this compute capability."""
        ampere = "bf16" in self._info.precisions
        return ("flash", "efficient", "cudnn", "math") if ampere else ("efficient", "math")


class Cuda(TorchVendor):
    """Finds and opens NVIDIA devices."""

    describes = "NVIDIA GPUs (CUDA)"
    kind, backend, maker, pci_vendor = "cuda", "cuda", "NVIDIA", NVIDIA
    hiding = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    device = CudaDevice

    def __init__(self, pci: Path = PCI, environment: Mapping[str, str] = os.environ, nvml: Any = None) -> None:
        super().__init__(pci, environment)
        self._nvml = nvml

    def probe(self) -> Sequence[DeviceInfo]:
        """Return the devices with their driver, which `open` does not ask for: that loads NVML in a trial's process."""
        devices = super().probe()
        driver = _driver()[0] if devices else None
        return [msgspec.structs.replace(device, driver=driver) for device in devices]

    def missing(self) -> str:
        torch, version = torch_or_reason()
        if torch is None:
            return version
        if torch.version.hip:
            return f"{version} is a build for AMD (ROCm): use device rocm; {_driver()[1]}"
        if not torch.version.cuda:
            return f"{version} is a build without CUDA; {_driver()[1]}"
        return f"{version} is built for CUDA {torch.version.cuda} but sees no device; {_driver()[1]}"

    def seen(self) -> Sequence[str]:
        """Return the cards that NVML shows, or where it does not answer the kernel."""
        return () if hides_devices(self._environment, *self.hiding) else _shown() or super().seen()

    def slices(self) -> Mapping[str, str]:
        """Return the MIG slices that NVML knows, by UUID; nothing where no card is divided, or NVML does not answer."""
        return slices_of(self._nvml)

    def devices(self, torch: Any) -> Sequence[DeviceInfo]:
        return [
            self.described(
                index,
                props,
                uuid=_uuid(props),
                runtime=torch.version.cuda,
                compute_capability=f"{props.major}.{props.minor}",
                precisions=_precisions(props.major),
            )
            for index, props in enumerate(properties(torch, "cuda") if not torch.version.hip else ())
        ]


def _precisions(major: int) -> tuple[str, ...]:
    """Return what the tensor cores of that compute capability take: Volta FP16, Ampere BF16 and TF32 too."""
    return ("fp32", "tf32", "bf16", "fp16") if major >= 8 else ("fp32", "fp16") if major == 7 else ("fp32",)


def _uuid(props: Any) -> str | None:
    uuid = getattr(props, "uuid", None)
    if uuid is None:
        return None
    # torch writes the UUID of a slice like that of a card; its name is "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
    kind = "MIG" if " MIG " in str(getattr(props, "name", "")) else "GPU"
    return str(uuid) if str(uuid).startswith(("GPU-", "MIG-")) else f"{kind}-{uuid}"


def _shown() -> Sequence[str]:
    """Return the names of the cards that NVML shows; none where it does not answer."""
    try:
        import pynvml
    except ImportError:  # the kernel shows them too
        return ()
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [f"{pynvml.nvmlDeviceGetName(handle)} (by NVML)" for handle in handles]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:  # no driver, or one in a bad state
        return ()
    return names


def _driver() -> tuple[str | None, str]:
    """Return (driver version or None, the sentence about it)."""
    try:
        import pynvml
    except ImportError as error:
        return None, f"the NVIDIA driver could not be asked ({error})"
    try:
        pynvml.nvmlInit()
        version = str(pynvml.nvmlSystemGetDriverVersion())
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return None, f"no NVIDIA driver found (NVML: {type(error).__name__.removeprefix('NVMLError_')})"
    return version, f"NVIDIA driver {version} is there"


PLUGIN: Vendor = Cuda()
