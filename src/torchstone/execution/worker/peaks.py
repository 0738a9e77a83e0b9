"""Peak rates of a device, one after another, within a budget: products, memory, transfers, launches, disk, decoding."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import (
    COPY,
    DECODE,
    DISK,
    LAUNCH,
    MATMUL,
    PAGEABLE,
    PINNED,
    SUSTAINED,
    TO_DEVICE,
    TO_HOST,
    TRIAD,
    DeviceInfo,
    Peaks,
    Rate,
)
from torchstone.core.schema.message import Entered, Event, PeaksMeasured, PeaksRequest
from torchstone.core.schema.metric import Unit
from torchstone.core.units import quantity
from torchstone.execution import machine_facts
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device, Gauge, TelemetrySource, Vendor

# Which shape of a matrix product is fastest: a guided search over (M, N, K), in a few seconds.
#
# A plain scan (mamf-finder, Stas Bekman, Machine Learning Engineering, ch. "Compute/Accelerator/Benchmarks") takes from
# half an hour to days. The rate is a smooth hill over log M, log N, log K, with steps where a size divides into tiles:
# so few seeds find its foot, successive halving (Jamieson & Talwalkar, AISTATS 2016) the best of them, and a walk in
# ever smaller steps its top. What a shape is worth is the best of its blocks, each a few products long: disturbances
# only ever slow a block down (Chen & Revels, Robust benchmarking in noisy environments, HPEC 2016).
#
# Knows no torch: what times a block is given to it.

_SIZES = (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384)
_STEPS = (2.0, 1.5, 1.25, 1.125)  # of one size at a time, then of all three together
_HALVING_SHARE = 0.3  # of the budget
_FINAL_SHARE = 0.22
_FINALISTS = 3
_NEAR = 0.85  # of the best: so near, a shape may be as good: its blocks were few
_TILE = 32


class MatmulShape(NamedTuple):
    """An M × K matrix times a K × N matrix; `transposed`: the second lies as N × K, as in torch.nn.Linear."""

    m: int
    n: int
    k: int
    transposed: bool = True

    @property
    def flops(self) -> float:
        """Operations of one product, 2 a multiply-add."""
        return 2.0 * self.m * self.n * self.k

    @property
    def largest(self) -> int:
        """Numbers in the largest of its three matrices."""
        return max(self.m * self.k, self.k * self.n, self.m * self.n)

    def __str__(self) -> str:
        return f"{self.m} × {self.k} times {self.k} × {self.n}{' (transposed)' if self.transposed else ''}"


class FastestShape(NamedTuple):
    """The fastest shape, its rate in FLOP/s, and how many shapes and blocks were tried."""

    shape: MatmulShape
    rate: float
    shapes: int
    blocks: int


Block = Callable[[MatmulShape], float]  # times one block of products, and returns their rate in FLOP/s


class ShapeSearch:
    """One search. `most_numbers`: the largest matrix that may be asked for; `most_s`: the longest product."""

    def __init__(self, block: Block, most_numbers: int, most_s: float, clock: Clock) -> None:
        self._block, self._clock = block, clock
        self._most_numbers, self._most_s = most_numbers, most_s
        self._best: dict[MatmulShape, float] = {}
        self._blocks = 0

    def warm_up(self, budget_s: float) -> None:
        """Time products whose rate does not count: clocks and threads settle meanwhile."""
        ends_s, shape = self._clock() + budget_s, MatmulShape(512, 512, 512)
        while self._clock() < ends_s and shape.largest <= self._most_numbers:
            self._block(shape)

    def run(self, budget_s: float) -> FastestShape:
        """Search for so many seconds; the block in progress is finished. Raises ValueError if not one shape fits."""
        begin_s = self._clock()
        self._halve(list(self._seeds()), begin_s + _HALVING_SHARE * budget_s)
        self._climb(begin_s + (1.0 - _FINAL_SHARE) * budget_s)
        self._settle(begin_s + budget_s)
        if not self._best:
            raise ValueError(f"no product of matrices of at most {self._most_numbers} numbers to try")
        top = self._ranked()[0]
        return FastestShape(top, self._best[top], len(self._best), self._blocks)

    def _seeds(self) -> Iterator[MatmulShape]:
        """Yield cubes from small to large, then flat, tall and deep ones of about the same work as the best cube.

        Each is tried as it is yielded: the rate so far tells which would take too long.
        """
        for size in _SIZES:
            shape = MatmulShape(size, size, size)
            if not self._try(shape):
                break
            yield shape
        if not self._best:
            return
        top = self._ranked()[0].m
        for m, n, k in ((4, 1, 1), (1, 4, 1), (2, 2, 1), (2, 2, 0.5), (1, 1, 4), (4, 4, 0.25)):
            shape = _rounded(m * top, n * top, k * top, transposed=True)
            if self._try(shape):
                yield shape
        shape = MatmulShape(top, top, top, transposed=False)
        if self._try(shape):
            yield shape

    def _halve(self, shapes: Sequence[MatmulShape], until_s: float) -> None:
        """Give the better half of the shapes a block more, again and again, until few are left or time is up."""
        rounds = 1
        while len(shapes) > _FINALISTS:
            shapes = sorted(shapes, key=self._best.__getitem__, reverse=True)[: (len(shapes) + 1) // 2]
            for shape in shapes * rounds:
                if self._clock() >= until_s:
                    return
                self._again(shape)
            rounds += 1

    def _climb(self, until_s: float) -> None:
        """Walk from the best shape to its neighbours while one is better, in smaller and smaller steps."""
        for factor in _STEPS:
            moved = True
            while moved:
                top = self._ranked()[0] if self._best else None
                if top is None:
                    return
                moved = False
                for shape in _neighbours(top, factor):
                    if self._clock() >= until_s:
                        return
                    # The best of many blocks reads high: a shape that comes near gets as many, and so does the top.
                    if self._try(shape) and self._best[shape] > 0.97 * self._best[top]:
                        self._again(shape)
                        self._again(top)
                    moved = moved or self._best.get(shape, 0.0) > self._best[top]

    def _settle(self, until_s: float) -> None:
        """Time the best few in turn until the time is up, and the shortest of those that come near.

        On a machine that is shared a short product finds a gap between its neighbours where a long one never does.
        """
        ranked = self._ranked()
        near = [shape for shape in ranked if self._best[shape] >= _NEAR * self._best[ranked[0]]]
        finalists = dict.fromkeys((*ranked[:_FINALISTS], *sorted(near, key=lambda shape: shape.flops)[:1]))
        for shape in itertools.cycle(finalists):
            if self._clock() >= until_s:
                return
            self._again(shape)

    def _try(self, shape: MatmulShape) -> bool:
        """Time a shape that was not tried yet; False where it is too large, too small, or known already."""
        if shape in self._best or shape.largest > self._most_numbers or min(shape[:3]) < _TILE:
            return False
        rate = max(self._best.values(), default=0.0)
        if rate > 0.0 and shape.flops / rate > self._most_s:
            return False
        self._best[shape] = self._timed(shape)
        return True

    def _again(self, shape: MatmulShape) -> None:
        self._best[shape] = max(self._best[shape], self._timed(shape))

    def _timed(self, shape: MatmulShape) -> float:
        self._blocks += 1
        return self._block(shape)

    def _ranked(self) -> list[MatmulShape]:
        return sorted(self._best, key=self._best.__getitem__, reverse=True)


def _neighbours(shape: MatmulShape, factor: float) -> Iterator[MatmulShape]:
    m, n, k, transposed = shape
    for up in (factor, 1.0 / factor):
        yield _rounded(m * up, n, k, transposed=transposed)
        yield _rounded(m, n * up, k, transposed=transposed)
        yield _rounded(m, n, k * up, transposed=transposed)
    for up in (factor, 1.0 / factor):
        yield _rounded(m * up, n * up, k * up, transposed=transposed)
    yield MatmulShape(m, n, k, not transposed)


def _rounded(m: float, n: float, k: float, *, transposed: bool) -> MatmulShape:
    rows, columns, depth = (max(_TILE, _TILE * round(size / _TILE)) for size in (m, n, k))
    return MatmulShape(rows, columns, depth, transposed)


_BLOCK_S = 0.004  # a thousand readings of the clock, and about as long as a neighbour lets one have a core
_MOST_IN_BLOCK = 1000
_LAP_S, _AHEAD_S, _FEWEST_LAPS = 0.02, 0.1, 3  # of products without a pause: a lap, and how far the host is ahead
_DTYPES: Mapping[str, str] = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}


class Products:
    """Matrices of normally distributed numbers (zeros or equal ones draw less power, and run at a higher clock).

    Raises Unsupported where torch has no product in that format here.
    """

    def __init__(self, device: Device, precision: str, most_numbers: int) -> None:
        import torch

        self._device, self._precision = device, precision
        self._watch = device.stopwatch()
        self._seconds: dict[MatmulShape, float] = {}
        if precision in ("fp32", "tf32"):
            torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        try:
            self._a, self._b = (_numbers(torch, device, precision, most_numbers) for _ in range(2))
            self._multiply = _ways(torch, device, precision, most_numbers)
            self._multiply(self._a, self._b, MatmulShape(64, 64, 64))
            device.synchronize()
        except (RuntimeError, AttributeError, NotImplementedError, TypeError) as error:
            said = str(error).strip().partition("\n")[0][:120]
            raise Unsupported(f"torch has no {precision} matrix product here ({said})") from error

    def block(self, shape: MatmulShape) -> float:
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

    def sustained(self, shape: MatmulShape, total_s: float, clock: Clock) -> float:
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

    def _timed(self, shape: MatmulShape, count: int) -> float:
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


def _ways(torch: Any, device: Device, precision: str, most_numbers: int) -> Callable[[Any, Any, MatmulShape], Any]:
    """Return what multiplies the beginnings of two long rows of numbers, taken as matrices of a Shape."""
    if precision == "fp8":
        one = torch.ones((), device=device.torch_device)
        fast = _fast_accumulation(torch, device.torch_device.type)

        def scaled(a: Any, b: Any, shape: MatmulShape) -> Any:
            left, right = _matrices(a, b, shape._replace(transposed=True))  # the only layout of fp8 kernels
            return torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, **fast)

        return scaled
    if precision == "int8":
        return lambda a, b, shape: torch._int_mm(*_matrices(a, b, shape))
    room = torch.empty(most_numbers, device=device.torch_device, dtype=getattr(torch, _DTYPES[precision]))

    def plain(a: Any, b: Any, shape: MatmulShape) -> Any:
        return torch.mm(*_matrices(a, b, shape), out=room[: shape.m * shape.n].view(shape.m, shape.n))

    return plain


def _fast_accumulation(torch: Any, kind: str) -> Mapping[str, bool]:
    """Return what asks for sums kept in the tensor cores: full ones cost Hopper a part of its rate in fp8.

    Training and inference in fp8 take fast ones, too, in the forward pass. Only where this torch has the word.
    """
    known = {argument.name for argument in torch.ops.aten._scaled_mm.default._schema.arguments}
    return {"use_fast_accum": True} if kind == "cuda" and "use_fast_accum" in known else {}


def _matrices(a: Any, b: Any, shape: MatmulShape) -> tuple[Any, Any]:
    m, n, k, transposed = shape
    right = b[: k * n].view(n, k).t() if transposed else b[: k * n].view(k, n)
    return a[: m * k].view(m, k), right


# Memory bandwidth of a device, ways to and from it, and what it costs to issue an operator. Needs torch.
#
# Copy and triad are those of STREAM (McCalpin, Memory Bandwidth and Machine Balance in Current High Performance
# Computers, IEEE TCCA Newsletter, 1995): arrays of at least four times the last cache, bytes read and written as the
# program has them, the best of many passes.

_CACHE_BYTES = {"cpu": 64 << 20, "device": 256 << 20}  # where nobody tells: an MI300X has as much
_TRANSFER_BYTES = 256 << 20
_LAUNCHES = 1000
_COPIES = 10  # in a lap: of one, on a fast memory the launch is 4 to 7 % (an estimate; of ten, 2 % on an H200)


def memory_rates(device: Device, most_bytes: int, budget_s: float, clock: Clock) -> Iterator[Rate]:
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


def launch_interval(device: Device, budget_s: float, clock: Clock) -> Rate:
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


_FILE_BYTES, _CHUNK_BYTES = 256 << 20, 4 << 20
_READ_BYTES = 1 << 20
_CACHED = 0.7  # of the rate of a second reading: then the first came from memory, too
_PICTURE = (500, 375)  # a common size of ImageNet's photographs


def disk_rate(folder: Path, budget_s: float, clock: Clock) -> Rate:
    """Return how fast a file in that folder is read, after the system was asked to forget it; bytes/s.

    The file is gone when this returns. Where the system still had it in memory, `how` says so.
    """
    unit = f"{Unit.BYTE}/s"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".torchstone_peaks_") as file:
            written = _fill(file.fileno(), budget_s / 2.0, clock)
            forgotten = _forget(file.fileno())
            first_s = _read(file.fileno(), clock)
            again_s = _read(file.fileno(), clock)
    except OSError as fault:
        return Rate(DISK, None, unit, f"no file could be created in {folder}: {fault.strerror}")
    how = f"{quantity(float(written), 'bytes')} in {folder}, {quantity(float(_READ_BYTES), 'bytes')} at a time"
    if not forgotten:
        how += "; from the page cache: this system cannot drop a file from it"
    elif again_s > _CACHED * first_s:
        how += "; as fast as memory: still in a page cache"
    else:
        how += "; the page cache was dropped (posix_fadvise)"
    return Rate(DISK, written / first_s, unit, how, 1)


def _fill(descriptor: int, budget_s: float, clock: Clock) -> int:
    """Write numbers that no file system can compress; less than all of them where the disk is slow."""
    chunk, written, ends_s = random.Random(0).randbytes(_CHUNK_BYTES), 0, clock() + budget_s
    while written < _FILE_BYTES and (written == 0 or clock() < ends_s):
        written += os.write(descriptor, chunk)
        os.fsync(descriptor)  # of each: the page cache takes all of them at once, and a slow disk would then go on
    return written


def _forget(descriptor: int) -> bool:
    if not hasattr(os, "posix_fadvise"):  # macOS and Windows
        return False
    with contextlib.suppress(OSError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return True
    return False


def _read(descriptor: int, clock: Clock) -> float:
    os.lseek(descriptor, 0, os.SEEK_SET)
    begin_s = clock()
    while os.read(descriptor, _READ_BYTES):
        pass
    return max(clock() - begin_s, 1e-9)


def decode_rate(budget_s: float, clock: Clock) -> Rate:
    """Return how many pictures a second one process decodes to pixels: what a loader's worker can do at most."""
    unit = str(Unit.ITEM_RATE)
    try:
        from PIL import Image
    except ImportError:
        return Rate(DECODE, None, unit, "Pillow is not installed: pip install 'torchstone[models]'")
    picture = _picture(Image)
    best_s, passes, ends_s = float("inf"), 0, clock() + budget_s
    while passes == 0 or clock() < ends_s:
        begin_s = clock()
        Image.open(io.BytesIO(picture)).convert("RGB").load()
        best_s, passes = min(best_s, clock() - begin_s), passes + 1
    size = "{} × {}".format(*_PICTURE)
    how = f"a JPEG of {size} pixels, {quantity(float(len(picture)), 'bytes')}, Pillow, one process"
    return Rate(DECODE, 1.0 / max(best_s, 1e-9), unit, how, passes)


def _picture(image: Any) -> bytes:
    """Return a JPEG with some structure: smooth areas and fine grain, so that it packs as a photograph does."""
    dice, (width, height) = random.Random(0), _PICTURE
    coarse = image.frombytes("RGB", (width // 16, height // 16), dice.randbytes(3 * (width // 16) * (height // 16)))
    fine = image.frombytes("RGB", (width // 2, height // 2), dice.randbytes(3 * (width // 2) * (height // 2)))
    whole = image.blend(coarse.resize(_PICTURE, 3), fine.resize(_PICTURE, 2), 0.12)
    packed = io.BytesIO()
    whole.save(packed, "JPEG", quality=90)
    return packed.getvalue()


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
    peaks = peaks_of(
        request.placement, request.budget_s, Path(request.folder), lambda stage: send(Entered(stage, system_clock()))
    )
    send(PeaksMeasured(peaks))


def peaks_of(placement: Placement, budget_s: float, folder: Path, tell: Callable[[str], None]) -> Peaks:
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
        host.hostname,
        host.processor,
        info.kind,
        info.index,
        info.name,
        info.uuid,
        str(torch.__version__),
        torch.get_num_threads(),
        datetime.now(UTC).isoformat(timespec="seconds"),
        round(clock() - begin_s, 3),
        rates,
        neighbours.cores(clock() - begin_s),
        last_cache_bytes(device),
    )


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
    yield from memory_rates(device, _room_bytes(device, info) // 4, _MEMORY * budget_s, clock)
    if accelerator:
        tell("transfers")
        yield from transfers(device, _TRANSFERS * budget_s, clock)
    tell("launch")
    yield launch_interval(device, _LAUNCH * budget_s, clock)
    tell("disk")
    yield disk_rate(folder, _DISK * budget_s, clock)
    tell("decoding")
    yield decode_rate(_DECODE * budget_s, clock)


def _products(
    device: Device, info: DeviceInfo, precision: str, budget_s: float, sustained_s: float, clock: Clock
) -> Iterator[Rate]:
    """Yield the rate of the fastest product in a format, found in bursts, and what it keeps up for `sustained_s`."""
    try:
        found, products = fastest_product(device, info, precision, budget_s, clock)
    except Unsupported as why:
        yield Rate(MATMUL + precision, None, Unit.FLOP_RATE, str(why))
        return
    how = f"{found.shape}, the fastest of {found.shapes} shapes"
    yield Rate(MATMUL + precision, found.rate, Unit.FLOP_RATE, how, found.blocks)
    if sustained_s <= 0.0 or found.rate <= 0.0:
        return
    how = f"{found.shape} for {sustained_s:.2g} s without a pause, the last two thirds of that time"
    yield Rate(SUSTAINED + precision, products.sustained(found.shape, sustained_s, clock), Unit.FLOP_RATE, how, 1)


def fastest_product(
    device: Device, info: DeviceInfo, precision: str, budget_s: float, clock: Clock
) -> tuple[FastestShape, Products]:
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
    return room_bytes(device) or info.memory_bytes or 1 << 30


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
