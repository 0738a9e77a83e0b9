"""Products of matrices of a wanted length on a device, and the plainest clock for them.

Everything here is written by hand, with the host's clock around work that is waited for: what torchstone measures is
held against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from run_sheet.here import Here, NotHere

_MULTIPLE = 64  # sizes are multiples of it, or of 256 from 2,048 on: what tensor cores like
_TRIES = 4


class Bench:
    """A device as torch has it."""

    def __init__(self, here: Here) -> None:
        import torch

        self.torch: Any = torch
        self.kind = here.torch_kind
        self.device: Any = torch.device(self.kind) if self.kind in ("cpu", "mps") else torch.device(self.kind, 0)
        self._module: Any = None if here.on_cpu else torch.get_device_module(self.kind)
        if self._module is not None and not self._is_there():
            raise RuntimeError(f"torch {torch.__version__} sees no {here.device} device")
        self.dtype: Any = torch.float32 if here.on_cpu else torch.bfloat16

    def _is_there(self) -> bool:
        module = self.torch.backends.mps if self.kind == "mps" else self._module
        return bool(module.is_available())

    def synchronize(self) -> None:
        """Wait until everything issued is done."""
        if self._module is not None:
            self._module.synchronize()

    def free_bytes(self) -> int | None:
        """Return the free memory of the device, or None where torch does not tell."""
        tell = getattr(self._module, "mem_get_info", None)
        return int(tell()[0]) if tell is not None else None

    def total_bytes(self) -> int | None:
        """Return the memory of the device, or None where torch does not tell."""
        tell = getattr(self._module, "mem_get_info", None)
        return int(tell()[1]) if tell is not None else None

    def give_back(self) -> None:
        """Give the allocator's cache back to the device."""
        if self._module is not None and hasattr(self._module, "empty_cache"):
            self._module.empty_cache()

    def product(self, side: int, dtype: Any = None) -> Callable[[], Any]:
        """Return a product of two square matrices of normally distributed numbers (zeros draw less power)."""
        torch, kind = self.torch, dtype or self.dtype
        a, b = (torch.randn(side, side, device=self.device).to(kind) for _ in range(2))
        into = torch.empty(side, side, device=self.device, dtype=kind)
        multiply = torch.mm
        return lambda: multiply(a, b, out=into)

    def seconds(self, work: Callable[[], Any], count: int) -> float:
        """Return the seconds a call of `work`, over so many issued back to back, by the host's clock."""
        self.synchronize()
        began_s = time.perf_counter()
        for _ in range(count):
            work()
        self.synchronize()
        return (time.perf_counter() - began_s) / count

    def steady_seconds(self, work: Callable[[], Any], for_s: float = 0.3, rounds: int = 3) -> float:
        """Return the median over rounds of about `for_s` each, after one that is left out."""
        each_s = max(self.seconds(work, 3), 1e-7)
        count = max(5, round(for_s / each_s))
        self.seconds(work, count)
        return median(self.seconds(work, count) for _ in range(rounds))

    def side_for(self, wanted_s: float) -> int:
        """Return the side of a product that takes about so long: within a tenth, where sizes can be so fine."""
        side, most = (256 if self.kind == "cpu" else 1024), self._most_side()
        for _ in range(_TRIES):
            product = self.product(side)
            self.seconds(product, 1)  # chooses a kernel
            count = max(1, min(200, round(5e-3 / max(self.seconds(product, 3), 1e-7))))
            # The shortest of a few: a neighbour only ever makes it longer, and the product would come out too small.
            taken_s = min(self.seconds(product, count) for _ in range(5))
            del product
            self.give_back()
            if abs(taken_s / wanted_s - 1.0) < 0.1:
                break
            unit = 256 if side >= 2048 else _MULTIPLE
            side = min(most, max(_MULTIPLE, round(side * (wanted_s / taken_s) ** (1 / 3) / unit) * unit))
        return side

    def _most_side(self) -> int:
        free = self.free_bytes() or 1 << 30
        return max(256, int((free / 4 / (3 * 4)) ** 0.5) // 256 * 256)


def opened(here: Here) -> Any:
    """Return the device as torchstone opens it: its Device, Placement and DeviceInfo. Raises NotHere where it is not.

    The device in question is the sheet's, never another: what is not there is an error of the step.
    """
    from torchstone.api.recording import device_in_words

    found = device_in_words(here.device)
    if found.placement.device != here.device:
        raise RuntimeError(f"{here.device} was asked for, and {found.placement} was opened")
    return found


def gauges(here: Here, pid: int | None, info: Any) -> dict[str, Any]:
    """Return the device's gauges by metric, as torchstone's telemetry has them. Raises NotHere without any."""
    from torchstone.plugins import registry

    source = {"cuda": "nvml", "rocm": "amd_smi", "xpu": "intel_gpu"}.get(here.device)
    found = registry.load("telemetry", source).open(pid, info) if source is not None else ()
    if not found:
        raise NotHere(f"no telemetry source of torchstone reads a {here.device} device here")
    return {gauge.metric: gauge for gauge in found}
