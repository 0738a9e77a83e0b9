"""AMD devices, through torch's ROCm build, which calls them cuda."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchstone.devices._torch_device import TorchDevice, bus_id, found, pick, properties, torch_or_reason
from torchstone.extend import Device, Vendor
from torchstone.terms.machine import DeviceInfo


class Rocm:
    """Finds and opens AMD devices."""

    describes = "AMD GPUs (ROCm)"

    def __init__(self, module: Path = Path("/sys/module/amdgpu")) -> None:
        self._module = module

    def probe(self) -> Sequence[DeviceInfo]:
        """Return the AMD devices that torch sees."""
        return found(self._devices)

    def missing(self) -> str:
        """Say what torch was built for, and whether there is an AMD kernel driver."""
        torch, version = torch_or_reason()
        if torch is None:
            return version
        there = self._module.is_dir()
        driver = f"the kernel driver amdgpu {self._driver() or ''}".rstrip() + " is there" if there else (
            f"no AMD kernel driver found (no {self._module})"
        )  # fmt: skip
        if not torch.version.hip:
            return f"{version} is a build without ROCm; {driver}"
        return f"{version} is built for ROCm {torch.version.hip} but sees no device; {driver}"

    def open(self, index: int) -> Device:
        """Open an AMD device and make it torch's current one."""
        info = pick("rocm", self.probe(), index, self.missing)
        torch, _ = torch_or_reason()
        return TorchDevice(torch, torch.get_device_module("cuda"), info)

    def _devices(self, torch: Any) -> Sequence[DeviceInfo]:
        if not torch.version.hip:
            return ()
        driver = self._driver()
        return [
            DeviceInfo(
                kind="rocm", torch_kind="cuda", vendor="AMD", index=index, name=props.name,
                memory_bytes=props.total_memory, compute_capability=_architecture(props), driver=driver,
                runtime=torch.version.hip, uuid=_text(getattr(props, "uuid", None)), bus_id=bus_id(props),
            )
            for index, props in enumerate(properties(torch, "cuda"))
        ]  # fmt: skip

    def _driver(self) -> str | None:
        try:
            return (self._module / "version").read_text(encoding="ascii").strip() or None
        except OSError:  # the driver of the kernel itself has no version of its own
            return None


def _architecture(props: Any) -> str | None:
    name = getattr(props, "gcnArchName", None)
    return str(name).partition(":")[0] if name else None  # gfx90a:sramecc+:xnack- without its switches


def _text(value: object) -> str | None:
    return None if value is None else str(value)


PLUGIN: Vendor = Rocm()
