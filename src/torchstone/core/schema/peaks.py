"""Measured peak rates of a device: each Rate with its method, and the conditions of the measurement."""

from __future__ import annotations

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
