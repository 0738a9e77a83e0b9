"""Memory bandwidth of a device, ways to and from it, and what it costs to issue an operator. Needs torch.

Copy and triad are those of STREAM (McCalpin, Memory Bandwidth and Machine Balance in Current High Performance
Computers, IEEE TCCA Newsletter, 1995): arrays of at least four times the last cache, bytes read and written as the
program has them, the best of many passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torchstone.core.schema.peaks import COPY, LAUNCH, PAGEABLE, PINNED, TO_DEVICE, TO_HOST, TRIAD, Rate
from torchstone.core.schema.quantity import Unit
from torchstone.core.units import quantity
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import Clock
from torchstone.plugins.machine_protocols import Device

_CACHE_BYTES = {"cpu": 64 << 20, "device": 256 << 20}  # where nobody tells: an MI300X has as much
_TRANSFER_BYTES = 256 << 20
_LAUNCHES = 1000
_COPIES = 10  # in a lap: of one, on a fast memory the launch is 4 to 7 % (an estimate; of ten, 2 % on an H200)


def memory(device: Device, most_bytes: int, budget_s: float, clock: Clock) -> Iterator[Rate]:
    """Yield copy and triad in bytes/s, on arrays of fp32 that three together take at most `most_bytes`."""
    import torch

    cache = last_cache_bytes(device) or _CACHE_BYTES["cpu" if device.torch_device.type == "cpu" else "device"]
    each = min(4 * cache, most_bytes // 3)
    numbers = each // 4
    a, b, c = (torch.arange(numbers, dtype=torch.float32, device=device.torch_device) for _ in range(3))
    what = f"three arrays of {quantity(4.0 * numbers, 'bytes')}, last cache {quantity(float(cache), 'bytes')}"
    if each < 4 * cache:
        what += "; too little memory for arrays of four times that: caches help"
    for name, work, streams in (
        (COPY, lambda: c.copy_(a), 2),
        (TRIAD, lambda: torch.add(a, b, alpha=3.0, out=c), 3),
    ):
        seconds, passes = _best(device, work, budget_s / 2.0, clock, _COPIES)
        yield Rate(name, streams * 4.0 * numbers / seconds, f"{Unit.BYTE}/s", f"STREAM's, {what}", passes)


def transfers(device: Device, budget_s: float, clock: Clock) -> Iterator[Rate]:
    """Yield the ways between the host's memory and an accelerator's, from pinned and from pageable memory."""
    import torch

    there = torch.empty(_TRANSFER_BYTES, dtype=torch.uint8, device=device.torch_device)
    for kind in (PINNED, PAGEABLE):
        try:
            here = torch.empty(_TRANSFER_BYTES, dtype=torch.uint8, pin_memory=kind == PINNED).random_()
        except RuntimeError as error:  # a limit on locked pages, or a device that shares the host's memory
            why = f"no pinned memory: {str(error).strip().partition(chr(10))[0][:120]}"
            yield from (Rate(name + kind, None, f"{Unit.BYTE}/s", why) for name in (TO_DEVICE, TO_HOST))
            continue
        for name, to, source in ((TO_DEVICE, there, here), (TO_HOST, here, there)):
            copy, times = partial(to.copy_, source, non_blocking=True), _COPIES if kind == PINNED else 1
            seconds, passes = _best(device, copy, budget_s / 4.0, clock, times)
            how = f"{quantity(float(_TRANSFER_BYTES), 'bytes')} in one piece, {kind.strip('_')} memory"
            yield Rate(name + kind, _TRANSFER_BYTES / seconds, f"{Unit.BYTE}/s", how, passes)


def room_bytes(device: Device) -> int | None:
    """Return how much memory a device has free, or None where nobody tells."""
    if device.torch_device.type == "cpu":
        return available_bytes()
    import torch

    free = getattr(torch.get_device_module(device.torch_device), "mem_get_info", None)
    if free is None:
        return None
    try:
        return int(free(device.torch_device)[0])
    except RuntimeError:  # Intel devices whose driver does not tell (SYCL's aspect ext_intel_free_memory)
        return None


def launch(device: Device, budget_s: float, clock: Clock) -> Rate:
    """Return the seconds from one tiny operator to the next, when they are issued back to back."""
    import torch

    number = torch.zeros(1, device=device.torch_device)

    def many() -> None:
        for _ in range(_LAUNCHES):
            number.add_(1.0)

    seconds, passes = _best(device, many, budget_s, clock)
    how = f"x.add_(1) on one number, {_LAUNCHES} issued back to back: Python, torch's dispatch and the kernel"
    return Rate(LAUNCH, seconds / _LAUNCHES, Unit.SECOND, how, passes)


def last_cache_bytes(device: Device, cpu: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int | None:
    """Return the size of the last cache of a device, or None where nobody tells."""
    if device.torch_device.type == "cpu":
        return max((_size(path) for path in cpu.glob("index*/size")), default=0) or None
    import torch

    read = getattr(torch.get_device_module(device.torch_device), "get_device_properties", None)
    told = getattr(read(device.torch_device), "L2_cache_size", None) if read is not None else None
    return int(told) if told else None


def _size(path: Path) -> int:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    number, unit = text.rstrip("KMG"), text[-1:]
    return int(number) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(unit, 1) if number.isdigit() else 0


def _best(device: Device, work: Callable[[], Any], budget_s: float, clock: Clock, times: int = 1) -> tuple[float, int]:
    """Return the shortest time of `work` in seconds, and of how many: as many as the budget has room for.

    On a device that runs behind, a lap is so many `times` of it issued back to back: between two laps the device stands
    idle until the host has launched the next.
    """
    watch, ends_s, times_s = device.stopwatch(), clock() + budget_s, list[float]()
    in_lap = times if watch.asynchronous else 1
    work()
    while not times_s or clock() < ends_s:
        watch.start()
        for _ in range(in_lap):
            work()
        watch.lap()
        times_s += (lap_s / in_lap for lap_s in watch.stop())
    return max(min(times_s), 1e-9), in_lap * len(times_s)
