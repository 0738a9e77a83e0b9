"""The GPU of Apple silicon, through torch's MPS backend."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.devices._torch_device import TorchDevice, TorchVendor, torch_or_reason
from torchstone.plugins.machine_protocols import Device, Vendor


class MpsDevice(TorchDevice):
    """The open Apple GPU: there is one, with one queue."""

    elapsed_waits = True
    several = False

    def memory(self) -> Mapping[str, int]:
        """Return the present allocation; MPS keeps no peak."""
        reads = {"allocated_bytes": "current_allocated_memory", "reserved_bytes": "driver_allocated_memory"}
        return {
            metric: int(getattr(self._module, name)()) for metric, name in reads.items() if hasattr(self._module, name)
        }

    def precision_objection(self, precision: str) -> str | None:
        """Say that BF16 came with macOS 14."""
        newer = getattr(self._torch.backends.mps, "is_macos_or_newer", None)
        if precision == "bf16" and newer is not None and not newer(14, 0):
            return f"bf16 on {self._info.name} needs macOS 14 or newer; this is {self._info.driver or 'older'}"
        return super().precision_objection(precision)

    def compile_objection(self) -> str | None:
        """Say that torch.compile is unfinished here."""
        return f"torch.compile for Apple's MPS ({self._info.name}) is an unfinished prototype"

    def pinning_objection(self) -> str | None:
        """Say that memory is shared."""
        return f"{self._info.name} shares its memory with the CPU: there is no transfer that pinning could speed up"


class Mps(TorchVendor):
    """Finds and opens the Apple GPU."""

    describes = "Apple GPUs (MPS)"
    kind, backend, maker = "mps", "mps", "Apple"
    device = MpsDevice

    def missing(self) -> str:
        torch, version = torch_or_reason()
        if torch is None:
            return version
        here = f"{platform.system()} {platform.machine()}"
        if platform.system() != "Darwin":
            return f"no Apple GPU: this is {here}"
        if not torch.backends.mps.is_built():
            return f"{version} is a build without MPS ({here})"
        return f"{version} has MPS but finds no GPU it can use; it needs Apple silicon and macOS 14 (this is {here})"

    def module(self, torch: Any) -> Any:
        return _Module(torch)

    def pretend(self, info: DeviceInfo) -> Device:
        """Return an Apple GPU that is not here, under macOS 14 or newer."""
        torch, _ = torch_or_reason()
        newer = SimpleNamespace(device=torch.device, backends=SimpleNamespace(mps=None))
        return MpsDevice(newer, SimpleNamespace(), info)

    def seen(self) -> Sequence[str]:
        return ()  # it is on no bus

    def devices(self, torch: Any) -> Sequence[DeviceInfo]:
        if not torch.backends.mps.is_available():
            return ()
        most = getattr(torch.get_device_module("mps"), "recommended_max_memory", None)
        named = getattr(torch.backends.mps, "get_name", None)
        name, system = str(named()) if named else "Apple GPU", platform.mac_ver()[0]
        return [
            self.described(
                0,
                SimpleNamespace(name=name),
                memory_bytes=int(most()) if most is not None else None,
                driver=f"macOS {system}" if system else None,
                precisions=_precisions(torch, name),
            )
        ]


class _Module:
    """torch.mps with its event class under the name that the other backends have; torch 2.6 has it a level deeper."""

    def __init__(self, torch: Any) -> None:
        self._mps = torch.get_device_module("mps")
        self.Event = self._mps.event.Event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mps, name)


def _precisions(torch: Any, name: str) -> tuple[str, ...]:
    """Return the formats of the GPU: BF16 came with the M2, and to torch with macOS 14."""
    newer = getattr(torch.backends.mps, "is_macos_or_newer", None)
    native = name.startswith("Apple M") and not name.startswith("Apple M1") and newer is not None and newer(14, 0)
    return ("fp32", "bf16", "fp16") if native else ("fp32", "fp16")


PLUGIN: Vendor = Mps()
