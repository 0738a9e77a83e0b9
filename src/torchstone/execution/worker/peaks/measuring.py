"""Measures the peak rates of a device, one after another, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Entered, Event, PeaksMeasured, PeaksRequest
from torchstone.core.schema.peaks import MATMUL, SUSTAINED, Peaks, Rate
from torchstone.core.schema.quantity import Unit
from torchstone.execution import machine_facts
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.execution.worker.peaks import feeding, transfers
from torchstone.execution.worker.peaks.products import Products
from torchstone.execution.worker.peaks.shape_search import Found, ShapeSearch
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device, Gauge, TelemetrySource, Vendor

# Of the budget, in the order in which they are taken. What only an accelerator has falls to nobody on a CPU.
PRODUCTS_SHARE, _MEMORY, _TRANSFERS, _LAUNCH, _DISK, _DECODE = 0.64, 0.12, 0.06, 0.03, 0.1, 0.05
_MOST_NUMBERS = {"cpu": 1 << 24}
_MOST_NUMBERS_ELSEWHERE = 1 << 28
_MOST_PRODUCT_S = 0.03  # a block of long products is few of them, and rarely fits between two disturbances
_WARM_UP_SHARE = 0.1  # of the products' time: clocks and kernels settle
_SUSTAINED_SHARE, _SUSTAINED_S = 0.15, 3.0  # of the whole budget, beyond it; at most
_NARROW = ("fp8", "int8")  # formats that no axis has yet: tried where an accelerator may have units for them


def measure_peaks(request: PeaksRequest, send: Callable[[Event], None]) -> None:
    """Carry out a PeaksRequest: say what is measured next, and send what the device did at best."""
    peaks = measure(
        request.placement, request.budget_s, Path(request.folder), lambda stage: send(Entered(stage, system_clock()))
    )
    send(PeaksMeasured(peaks))


def measure(placement: Placement, budget_s: float, folder: Path, tell: Callable[[str], None]) -> Peaks:
    """Return the Peaks of a device, in about `budget_s` seconds; `folder` is where the disk is read.

    `tell` is told what is measured next. Raises Unsupported if there is no such device.
    """
    import torch

    vendor: Vendor = registry.load("devices", placement.device)
    device = vendor.open(placement.index)
    info = next(d for d in vendor.probe() if d.index == placement.index)
    wished = device.preference("threads", {})
    if wished is not None and int(wished[0] or 0) < torch.get_num_threads():
        torch.set_num_threads(int(wished[0] or 1))
    clock, begin_s, neighbours = system_clock, system_clock(), _Neighbours()
    rates = tuple(_rates(device, info, budget_s, folder, tell, clock))
    host = machine_facts.host()
    return Peaks(
        host.hostname, host.processor, info.kind, info.index, info.name, info.uuid, str(torch.__version__),
        torch.get_num_threads(), datetime.now(UTC).isoformat(timespec="seconds"), round(clock() - begin_s, 3), rates,
        neighbours.cores(clock() - begin_s), transfers.last_cache_bytes(device),
    )  # fmt: skip


def _rates(
    device: Device, info: DeviceInfo, budget_s: float, folder: Path, tell: Callable[[str], None], clock: Clock
) -> Iterator[Rate]:
    accelerator = info.kind != "cpu"
    precisions = [*(info.precisions or ("fp32",)), *(_NARROW if accelerator else ())]
    for precision in precisions:
        tell(f"products in {precision}")
        # What is kept up is asked of the formats that a case may have, on devices that a power limit holds.
        keeps_up = accelerator and precision in (info.precisions or ("fp32",))
        sustained_s = min(_SUSTAINED_S, _SUSTAINED_SHARE * budget_s) if keeps_up else 0.0
        yield from _products(device, info, precision, PRODUCTS_SHARE * budget_s / len(precisions), sustained_s, clock)
    tell("memory")
    yield from transfers.memory(device, _room_bytes(device, info) // 4, _MEMORY * budget_s, clock)
    if accelerator:
        tell("transfers")
        yield from transfers.transfers(device, _TRANSFERS * budget_s, clock)
    tell("launch")
    yield transfers.launch(device, _LAUNCH * budget_s, clock)
    tell("disk")
    yield feeding.disk(folder, _DISK * budget_s, clock)
    tell("decoding")
    yield feeding.decode(_DECODE * budget_s, clock)


def _products(
    device: Device, info: DeviceInfo, precision: str, budget_s: float, sustained_s: float, clock: Clock
) -> Iterator[Rate]:
    """Yield the rate of the fastest product in a format, found in bursts, and what it keeps up for `sustained_s`."""
    try:
        found, products = fastest(device, info, precision, budget_s, clock)
    except Unsupported as why:
        yield Rate(MATMUL + precision, None, Unit.FLOP_RATE, str(why))
        return
    how = f"{found.shape}, the fastest of {found.shapes} shapes"
    yield Rate(MATMUL + precision, found.rate, Unit.FLOP_RATE, how, found.blocks)
    if sustained_s <= 0.0 or found.rate <= 0.0:
        return
    how = f"{found.shape} for {sustained_s:.2g} s without a pause, the last two thirds of that time"
    yield Rate(SUSTAINED + precision, products.sustained(found.shape, sustained_s, clock), Unit.FLOP_RATE, how, 1)


def fastest(device: Device, info: DeviceInfo, precision: str, budget_s: float, clock: Clock) -> tuple[Found, Products]:
    """Return the fastest product of matrices that is found in so many seconds, and what timed it.

    Raises Unsupported where torch has none in that format here.
    """
    begin_s = clock()
    most = min(_MOST_NUMBERS.get(info.kind, _MOST_NUMBERS_ELSEWHERE), _room_bytes(device, info) // 64)
    products = Products(device, precision, most)
    search = ShapeSearch(products.block, most, _MOST_PRODUCT_S, clock)
    search.warm_up(_WARM_UP_SHARE * budget_s)
    return search.run(budget_s - (clock() - begin_s)), products


def _room_bytes(device: Device, info: DeviceInfo) -> int:
    """Return how much memory there is to work in: what is free, else what the device has, else a GiB."""
    return transfers.room_bytes(device) or info.memory_bytes or 1 << 30


class _Neighbours:
    """How many cores others keep busy: the CPU time of the host less our own."""

    def __init__(self) -> None:
        source: TelemetrySource = registry.load("telemetry", "host")
        gauges = [gauge for gauge in source.open(None, None) if gauge.metric == "host_busy_s"]
        self._busy: Gauge | None = gauges[0] if gauges else None
        self._begin_s = self._others_s()

    def _others_s(self) -> float | None:
        busy_s = self._busy.read() if self._busy is not None else None
        return None if busy_s is None else busy_s - time.process_time()

    def cores(self, elapsed_s: float) -> float | None:
        """Return the mean since the beginning."""
        end_s = self._others_s()
        if end_s is None or self._begin_s is None or elapsed_s <= 0.0:
            return None
        return max(0.0, round((end_s - self._begin_s) / elapsed_s, 2))
