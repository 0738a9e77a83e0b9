"""Keeps a device busy when told, and says how fast it was: the process of `torchstone machine check --all`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from torchstone.core.schema.message import Burst, BurstDone, BurstRequest, BurstWord, Entered
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.execution.worker.pipe import EventPipe
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device, Vendor

PRODUCTS, COPY, TO_DEVICE = "products", "memory", "to device"
_SIZE = {"cpu": 512}  # of square matrices: 1 MiB each on a core, 32 MiB and more on a card
_SIZE_ELSEWHERE = 4096
_COPIED_BYTES = {"cpu": 64 << 20}
_COPIED_BYTES_ELSEWHERE = 512 << 20
_SENT_BYTES = 128 << 20
_BLOCK_S = 0.01  # between two looks at the clock
_Work = tuple[str, float, Callable[[], object]]


def bursts(request: BurstRequest, line: EventPipe) -> None:
    """Carry out a BurstRequest. Raises Unsupported if there is no such device."""
    import torch

    if request.cores:
        os.sched_setaffinity(0, request.cores)
        torch.set_num_threads(len(request.cores))
    vendor: Vendor = registry.load("devices", request.placement.device)
    device = vendor.open(request.placement.index)
    works = list(_works(torch, device))
    for _, _, work in works:  # chooses kernels, and touches the memory
        work()
    device.synchronize()
    line.send(Entered("ready", system_clock()))
    while data := line.receive():
        word = msgspec.json.decode(data, type=BurstWord)
        if not isinstance(word, Burst):
            return
        rates: Mapping[str, float] = {
            name: amount * _each_second(work, word.seconds, device, system_clock) for name, amount, work in works
        }
        line.send(BurstDone(rates))


def _works(torch: Any, device: Device) -> Iterator[_Work]:
    """Yield name, amount (FLOP or bytes) and call of each kind of work."""
    kind, there = device.torch_device.type, device.torch_device
    size = _SIZE.get(kind, _SIZE_ELSEWHERE)
    dtype = torch.float32 if kind == "cpu" else torch.bfloat16
    a, b = (torch.randn(size, size, device=there).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    yield PRODUCTS, 2.0 * size**3, lambda: torch.mm(a, b, out=product)
    count = _COPIED_BYTES.get(kind, _COPIED_BYTES_ELSEWHERE)
    source, copy = (torch.zeros(count, dtype=torch.uint8, device=there) for _ in range(2))
    yield COPY, 2.0 * count, lambda: copy.copy_(source)
    if kind != "cpu":
        here = _pinned(torch)
        received = torch.empty(_SENT_BYTES, dtype=torch.uint8, device=there)
        yield TO_DEVICE, float(_SENT_BYTES), lambda: received.copy_(here, non_blocking=True)


def _pinned(torch: Any) -> Any:
    try:
        return torch.zeros(_SENT_BYTES, dtype=torch.uint8).pin_memory()
    except RuntimeError:  # a limit on locked pages, or a device that shares the host's memory
        return torch.zeros(_SENT_BYTES, dtype=torch.uint8)


def _each_second(work: Callable[[], object], seconds: float, device: Device, clock: Clock) -> float:
    """Return how often a second the work is done, issued in blocks that end with the device idle."""
    begin_s = clock()
    work()
    device.synchronize()
    block = max(1, min(1000, int(_BLOCK_S / max(clock() - begin_s, 1e-6))))
    done, begin_s = 0, clock()
    while done == 0 or clock() - begin_s < seconds:
        for _ in range(block):
            work()
        device.synchronize()
        done += block
    return done / max(clock() - begin_s, 1e-9)
