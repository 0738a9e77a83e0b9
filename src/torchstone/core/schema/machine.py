"""Machine: host, devices with their measured peak rates, software and settings, as found. Missing is None."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.core.schema.advice import Statement

MATMUL = "matmul_"  # with a number format: products of matrices, the best burst of some milliseconds
SUSTAINED = "sustained_matmul_"  # the same without a pause for seconds, which a power limit holds; of accelerators
COPY, TRIAD = "memory_copy", "memory_triad"
LAUNCH = "kernel_launch"
DISK, DECODE = "disk_read", "image_decode"
TO_DEVICE, TO_HOST = "host_to_device", "device_to_host"  # with _pinned or _pageable
PINNED, PAGEABLE = "_pinned", "_pageable"
_BUSY = 0.25  # cores


class Rate(msgspec.Struct, frozen=True):
    """One thing at its best, in `unit` (FLOP/s, bytes/s, s, items/s). `value` None: not measured, and `how` says why.

    `how`: what was done, in words: the shape of the product, the size of the arrays. `blocks`: how many were timed.
    """

    name: str
    value: float | None
    unit: str
    how: str
    blocks: int = 0


class Peaks(msgspec.Struct, frozen=True):
    """All Rates of one device of one host, and when, with which torch and how many CPU threads they were measured.

    `busy_cores`: cores that other processes kept busy meanwhile; `cache_bytes`: the device's last cache. None where the
    system does not tell.
    """

    hostname: str
    processor: str | None
    kind: str
    index: int
    device_name: str
    uuid: str | None
    torch: str | None
    threads: int
    measured_utc: str
    elapsed_s: float
    rates: tuple[Rate, ...]
    busy_cores: float | None = None
    cache_bytes: int | None = None

    @property
    def disturbed(self) -> bool:
        """Whether others had so much of the cores that products would have been faster without them."""
        return self.busy_cores is not None and self.busy_cores > _BUSY

    def value(self, name: str) -> float | None:
        """Return the value of a Rate, or None where it was not measured: a stranger's record may have 0 there."""
        found = next((rate.value for rate in self.rates if rate.name == name), None)
        return found if found is not None and found > 0.0 else None


class StepCounts(msgspec.Struct, frozen=True):
    """What was counted of one step; what could not be is None, for the reason `why_not`, which no page shows.

    `flops`: 2 a multiply-add, of products only. `traffic_bytes`: every product (of matrices, convolution, attention)
    reads its operands and writes its result once, an optimizer reads and writes weights, gradients and its own state
    once, and all else happens on the way: no way to compute the step moves less, unless a cache keeps it.
    `operators`: calls of torch's operators that make a device work, views left out, the optimizer's left out.
    """

    flops: float | None = None
    traffic_bytes: float | None = None
    operators: float | None = None
    why_not: Statement | None = None


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
