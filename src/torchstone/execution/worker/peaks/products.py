"""Products of matrices on an open device, a block at a time, in one number format. Used in a process that has torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.execution.timing.clock import Clock
from torchstone.execution.worker.peaks.search import Shape
from torchstone.plugins.machine_protocols import Device

_BLOCK_S = 0.004  # a thousand readings of the clock, and about as long as a neighbour lets one have a core
_MOST_IN_BLOCK = 1000
_LAP_S, _AHEAD_S, _FEWEST_LAPS = 0.02, 0.1, 3  # of products without a pause: a lap, and how far the host is ahead
_DTYPES: Mapping[str, str] = {
    "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn", "int8": "int8",
}  # fmt: skip


class Products:
    """Matrices of normally distributed numbers (zeros or equal ones draw less power, and run at a higher clock).

    Raises Unsupported where torch has no product in that format here.
    """

    def __init__(self, device: Device, precision: str, most_numbers: int) -> None:
        import torch

        self._device, self._precision = device, precision
        self._watch = device.stopwatch()
        self._seconds: dict[Shape, float] = {}
        if precision in ("fp32", "tf32"):
            torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        try:
            self._a, self._b = (_numbers(torch, device, precision, most_numbers) for _ in range(2))
            self._multiply = _ways(torch, device, precision, most_numbers)
            self._multiply(self._a, self._b, Shape(64, 64, 64))
            device.synchronize()
        except (RuntimeError, AttributeError, NotImplementedError, TypeError) as error:
            said = str(error).strip().partition("\n")[0][:120]
            raise Unsupported(f"torch has no {precision} matrix product here ({said})") from error

    def block(self, shape: Shape) -> float:
        """Return the rate of one block of that product in FLOP/s; 0.0 where the device refuses the shape."""
        try:
            if shape not in self._seconds:
                self._seconds[shape] = self._timed(shape, 1)  # chooses a kernel, and warms the caches
            count = max(1, min(_MOST_IN_BLOCK, math.ceil(_BLOCK_S / self._seconds[shape])))
            seconds = self._timed(shape, count)
        except RuntimeError:  # no kernel for such sizes, or no memory for its workspace: another shape will do
            return 0.0
        self._seconds[shape] = min(self._seconds[shape], seconds)
        return shape.flops / seconds

    def sustained(self, shape: Shape, total_s: float, clock: Clock) -> float:
        """Return the rate of that product over the last two thirds of so many seconds without a pause, in FLOP/s.

        Bursts end before a card's power limit, and its heat, take a part of its clock; a training does not. The first
        third is left out: the limit holds the mean of some tenths of a second. Raises RuntimeError as the product does.
        """
        product_s = self._seconds.get(shape) or self._timed(shape, 1)
        count = max(1, min(_MOST_IN_BLOCK, math.ceil(_LAP_S / product_s)))
        watch, multiply, a, b = self._watch, self._multiply, self._a, self._b
        ends_s, laps = clock() + total_s, 0
        watch.start()
        while laps < _FEWEST_LAPS or clock() < ends_s:
            for _ in range(count):
                multiply(a, b, shape)
            watch.lap()
            watch.hold(_AHEAD_S, read=False)
            laps += 1
        late_s = watch.stop()[laps // 3 :]
        return shape.flops * count * len(late_s) / max(math.fsum(late_s), 1e-9)

    def _timed(self, shape: Shape, count: int) -> float:
        """Return the seconds a product, over so many issued back to back."""
        watch, multiply, a, b = self._watch, self._multiply, self._a, self._b
        watch.start()
        for _ in range(count):
            multiply(a, b, shape)
        watch.lap()
        return max(sum(watch.stop()) / count, 1e-9)


def _numbers(torch: Any, device: Device, precision: str, count: int) -> Any:
    numbers = torch.randn(count, device=device.torch_device)
    return (32.0 * numbers).to(torch.int8) if precision == "int8" else numbers.to(getattr(torch, _DTYPES[precision]))


def _ways(torch: Any, device: Device, precision: str, most_numbers: int) -> Callable[[Any, Any, Shape], Any]:
    """Return what multiplies the beginnings of two long rows of numbers, taken as matrices of a Shape."""
    if precision == "fp8":
        one = torch.ones((), device=device.torch_device)
        fast = _fast_accumulation(torch, device.torch_device.type)

        def scaled(a: Any, b: Any, shape: Shape) -> Any:
            left, right = _matrices(a, b, shape._replace(transposed=True))  # the only layout of fp8 kernels
            return torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, **fast)

        return scaled
    if precision == "int8":
        return lambda a, b, shape: torch._int_mm(*_matrices(a, b, shape))
    room = torch.empty(most_numbers, device=device.torch_device, dtype=getattr(torch, _DTYPES[precision]))

    def plain(a: Any, b: Any, shape: Shape) -> Any:
        return torch.mm(*_matrices(a, b, shape), out=room[: shape.m * shape.n].view(shape.m, shape.n))

    return plain


def _fast_accumulation(torch: Any, kind: str) -> Mapping[str, bool]:
    """Return what asks for sums kept in the tensor cores: full ones cost Hopper a part of its rate in fp8.

    Training and inference in fp8 take fast ones, too, in the forward pass. Only where this torch has the word.
    """
    known = {argument.name for argument in torch.ops.aten._scaled_mm.default._schema.arguments}
    return {"use_fast_accum": True} if kind == "cuda" and "use_fast_accum" in known else {}


def _matrices(a: Any, b: Any, shape: Shape) -> tuple[Any, Any]:
    m, n, k, transposed = shape
    right = b[: k * n].view(n, k).t() if transposed else b[: k * n].view(k, n)
    return a[: m * k].view(m, k), right
