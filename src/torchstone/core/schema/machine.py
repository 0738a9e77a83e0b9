"""Machine: host, devices, software and settings, as found. Missing is None."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.schema.peaks import Peaks


class Host(msgspec.Struct, frozen=True):
    """The computer: what its operating system says of it."""

    hostname: str
    platform: str
    processor: str | None
    physical_cores: int | None
    logical_cores: int | None
    memory_bytes: int | None
    governor: str | None = None


class DeviceInfo(msgspec.Struct, frozen=True):
    """One device. `kind` is torchstone's word (rocm), `torch_kind` is torch's (cuda), `vendor` who made it.

    `precisions`: the number formats that its units for products take as they are; empty where that was not recorded.
    `numa_node`, `local_cpus` ("0-31"): the node and the logical cores next to it, where the kernel tells.
    """

    kind: str
    torch_kind: str
    vendor: str
    index: int
    name: str
    memory_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    runtime: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    precisions: tuple[str, ...] = ()
    numa_node: int | None = None
    local_cpus: str | None = None


class Room(msgspec.Struct, frozen=True):
    """What a device has left for one more process. `shared`: it admits one beside those that use it already."""

    shared: bool
    free_bytes: int
    total_bytes: int


class Machine(msgspec.Struct, frozen=True):
    """Host, devices, software (name → version) and settings (environment and kernel switches that move timings).

    `peaks`: what its devices were measured to do at best, newest first, where that has been measured.
    """

    host: Host
    devices: tuple[DeviceInfo, ...]
    software: Mapping[str, str | None]
    settings: Mapping[str, str | None]
    peaks: tuple[Peaks, ...] = ()

    def device(self, kind: str, index: int) -> DeviceInfo | None:
        """Return the device of that kind and index, or None."""
        return next((d for d in self.devices if d.kind == kind and d.index == index), None)

    def best(self, kind: str, index: int, threads: int | None = None) -> Peaks | None:
        """Return the newest Peaks of that device under this torch, if `threads` is given with as many threads."""
        device = self.device(kind, index)
        if device is None:
            return None
        ours = (self.host.hostname, self.host.processor, kind, index, device.name, device.uuid)
        for p in self.peaks:
            theirs = (p.hostname, p.processor, p.kind, p.index, p.device_name, p.uuid)
            if theirs == ours and p.torch == self.software.get("torch") and threads in (None, p.threads):
                return p
        return None
