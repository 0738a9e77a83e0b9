"""A modelled device, loader and data set: what a step takes at each of the 336 settings, and what a trial of it costs.

The device. A step of batch b is issued in `launch_s` and computed in b/rate + `latency_s`; the longer of the two counts
(softly), so small batches are launch-bound and large ones saturate (Williams, Waterman & Patterson, Roofline, CACM
52(4), 2009, with the latency term of Amdahl 1967). bf16 multiplies the rate. Past `cache_items` the working set leaves
the cache and the rate falls by `cache_loss` over two octaves. Every batch × precision has a roughness of its own
(tiles that do not divide, another algorithm chosen), and a few have a dip.

Memory. Peak = fixed + b × per item, a workspace on top, rounded to blocks; bf16 needs a share of it. Beyond the
capacity a trial ends; close to it the allocator flushes and retries, which costs time.

The loader. An item costs `item_s` of one core, a batch `batch_s`. w workers share `loader_cores` (softly), and lose by
contention beyond them; the consuming process unpickles `handover_s` a batch and `handover_item_s` an item; storage
allows `storage_rate`. 0 workers load in turn with the step.

The transfer. Items cross at `transfer_rate`, `pinned_gain` times faster from pinned memory and then overlapped; pinning
costs the consuming process a copy. On a CPU there is none, and workers and steps share the cores.

A trial costs start + build + workers + warm-up + the drain of the loader's queue (workers × 2 batches) + the window, as
torchstone's own do: `window_s` × effort, at least MIN_STEPS steps and TURNS turns of that queue. Noise: see noise.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from random import Random

import msgspec
from surfaces.noise import Noise
from surfaces.surface import Spot, Surface, out_of_memory, spot_of

from torchstone.core.schema.search import Part, Point, Probe, ProbeResult
from torchstone.core.schema.trial import Status

WINDOW_S = 5.0  # Procedure.budget_s
WARMUP_S = 3.0  # Procedure.warmup_budget_s; steady sooner after WARMUP_STEPS
WARMUP_STEPS = (3, 12)
MIN_STEPS = 5
PREFETCH = 2
TURNS = 2
WORKER_START_S = 0.03
BLOCK = 2 * 1024**2
TIMEOUT_S = 600.0


class Device(msgspec.Struct, frozen=True):
    """What a device does with batches. Rates in items/s."""

    rate: float
    launch_s: float
    latency_s: float
    bf16_gain: float
    shares_cores: bool = False
    cores: int = 16
    cache_items: float = math.inf
    cache_loss: float = 0.0
    roughness: float = 0.015
    dips: int = 2
    build_s: float = 2.0


class Memory(msgspec.Struct, frozen=True):
    """What a step needs and what there is, in bytes."""

    capacity: float
    fixed: float
    per_item: float
    bf16_share: float
    workspace: float = 0.02
    retry_loss: float = 0.15


class Loader(msgspec.Struct, frozen=True):
    """What the loader's processes do."""

    item_s: float
    batch_s: float
    cores: float
    contention: float
    handover_s: float
    handover_item_s: float
    storage_rate: float = math.inf
    transfer_rate: float = math.inf
    pinned_gain: float = 1.0
    pin_item_s: float = 0.0


class Modelled(Surface):
    """A surface from the model."""

    def __init__(self, name: str, device: Device, memory: Memory, loader: Loader, noise: Noise, seed: int) -> None:
        self.name = name
        self.device, self.memory, self.loader, self.noise = device, memory, loader, noise
        self.capacity_bytes = memory.capacity
        rng = Random(f"{name}/{seed}")
        keys = [(2**n, precision) for n in range(14) for precision in ("fp32", "bf16")]
        self._slower = {key: math.exp(rng.gauss(0.0, device.roughness)) for key in keys}
        for key in rng.sample(keys, device.dips):
            self._slower[key] *= rng.uniform(1.06, 1.35)
        self._workspace = {key: rng.uniform(0.0, memory.workspace) for key in keys}
        self.device_s = lru_cache(maxsize=None)(self._device_s)

    def _device_s(self, batch: int, precision: str) -> float:
        """Return the seconds that the device takes for a batch that is already there."""
        d = self.device
        rate = d.rate * (d.bf16_gain if precision == "bf16" else 1.0)
        beyond = math.log2(batch / d.cache_items) if batch > d.cache_items else 0.0
        compute = (batch / rate) * (1.0 + d.cache_loss * min(1.0, beyond / 2.0)) + d.latency_s
        full = self.peak_bytes(batch, precision) / self.memory.capacity
        thrash = 1.0 + self.memory.retry_loss * max(0.0, (full - 0.9) / 0.1)
        return soft_max(d.launch_s, compute, 4.0) * self._slower[batch, precision] * thrash

    def peak_bytes(self, batch: int, precision: str) -> float:
        """Return the peak memory of a step."""
        m = self.memory
        share = m.bf16_share if precision == "bf16" else 1.0
        peak = (m.fixed + batch * m.per_item * share) * (1.0 + self._workspace[batch, precision])
        return math.ceil(peak / BLOCK) * BLOCK

    def loader_s(self, batch: int, workers: int) -> float:
        """Return the seconds between two batches of the loader alone."""
        load = self.loader
        work = batch * load.item_s + load.batch_s
        if workers == 0:
            return max(work, batch / load.storage_rate)
        hands = 1.0 / soft_max(1.0 / workers, 1.0 / load.cores, 4.0)
        hands /= 1.0 + load.contention * max(0.0, workers - load.cores) / load.cores
        handover = load.handover_s + batch * load.handover_item_s
        return soft_max(soft_max(work / hands, handover, 6.0), batch / load.storage_rate, 6.0)

    def step_s(self, spot: Spot) -> float:
        """Return the seconds of a whole step: loader, transfer and device."""
        load, d = self.loader, self.device
        compute = self.device_s(spot.batch, spot.precision)
        feed = self.loader_s(spot.batch, spot.workers)
        crossing = spot.batch / load.transfer_rate
        if spot.pin:
            feed = soft_max(feed, load.handover_s + spot.batch * (load.handover_item_s + load.pin_item_s), 6.0)
            compute = soft_max(compute, crossing / load.pinned_gain, 6.0)
        else:
            compute += crossing
        if spot.workers == 0:
            return feed + compute
        compute += load.handover_s + spot.batch * load.handover_item_s * 0.3
        if d.shares_cores:
            busy = spot.batch * load.item_s + load.batch_s
            crowd = 1.0 + load.contention * min(spot.workers, 2 * d.cores) / (2 * d.cores)
            compute = (compute + busy / d.cores) * crowd
        return soft_max(feed, compute, 8.0)

    def fits(self, spot: Spot) -> bool:
        """Say whether a step fits into memory."""
        return self.peak_bytes(spot.batch, spot.precision) <= self.memory.capacity

    def truth(self, point: Point) -> float | None:
        """Return the true items/s, or None where memory ends or the time for a trial does."""
        spot = spot_of(point)
        ends = not self.fits(spot) or self.cost_s(spot, Part.WHOLE, 1.0) >= TIMEOUT_S
        return None if ends else spot.batch / self.step_s(spot)

    def full_cost_s(self, point: Point) -> float:
        """Return the seconds of a full trial."""
        return self.cost_s(spot_of(point), Part.WHOLE, 1.0)

    def cost_s(self, spot: Spot, part: Part, effort: float) -> float:
        """Return the seconds of a trial."""
        start = 0.1 + (0.1 * self.device.build_s if part is Part.LOADER else self.device.build_s)
        if part is not Part.LOADER and not self.fits(spot):
            return start + 1.0
        step = self.part_s(spot, part)
        workers = 0 if part is Part.DEVICE else spot.workers
        warm = max(WARMUP_STEPS[0] * step, min(WARMUP_STEPS[1] * step, WARMUP_S * effort))
        window = self._window_s(step, workers, effort)
        return min(TIMEOUT_S, start + workers * (WORKER_START_S + PREFETCH * step) + warm + window)

    @staticmethod
    def _window_s(step_s: float, workers: int, effort: float) -> float:
        return max(MIN_STEPS * step_s, TURNS * PREFETCH * workers * step_s, WINDOW_S * effort)

    def part_s(self, spot: Spot, part: Part) -> float:
        """Return the seconds of a step, or of a part of one on its own."""
        if part is Part.LOADER:
            return self.loader_s(spot.batch, spot.workers)
        return self.device_s(spot.batch, spot.precision) if part is Part.DEVICE else self.step_s(spot)

    def trials(self, seed: int) -> Callable[[Probe], ProbeResult]:
        """Return a function that carries out trials."""
        errors = self.noise.errors(f"{self.name}/{seed}")

        def take(probe: Probe) -> ProbeResult:
            spot = spot_of(probe.point)
            cost = self.cost_s(spot, probe.part, probe.effort)
            if probe.part is not Part.LOADER and not self.fits(spot):
                return out_of_memory(probe, cost)
            true_s = self.part_s(spot, probe.part)
            if cost >= TIMEOUT_S:
                return ProbeResult(probe, Status.TIMED_OUT, cost)
            workers = 0 if probe.part is Part.DEVICE else spot.workers
            window_s = self._window_s(true_s, workers, probe.effort)
            step = true_s * errors(window_s, cost)
            peak = None if probe.part is Part.LOADER else self.peak_bytes(spot.batch, spot.precision)
            return ProbeResult(probe, Status.OK, cost, spot.batch / step, peak, step_s=step, window_s=window_s)

        return take


def soft_max(a: float, b: float, sharpness: float) -> float:
    """Return the longer of two overlapping times, a little more where they are alike."""
    top = max(a, b)
    return top * ((a / top) ** sharpness + (b / top) ** sharpness) ** (1.0 / sharpness)
