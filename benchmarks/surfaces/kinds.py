"""Nine kinds of modelled surface, their figures drawn from a seed.

Ranges are those of real work: launch-bound small nets issue a step in 1 to 10 ms; a ViT-B trains at some hundred images
a second on one card, small ones at tens of thousands; a JPEG costs 2 to 8 ms of a core to decode and augment, a
tokenised sentence 20 to 100 µs; PCIe moves 3 to 6 GB/s from pageable and 12 to 25 GB/s from pinned memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import msgspec
from surfaces.model import Device, Loader, Memory, Modelled
from surfaces.noise import LARGE_NET, SMALL_NET, Noise

GB = 1e9
GPU_SECONDS = 6.0  # a step of the largest batch that fits takes no longer: nobody waits for more


class Draw:
    """Figures from a seed."""

    def __init__(self, seed: str) -> None:
        self._rng = Random(seed)

    def of(self, low: float, high: float) -> float:
        """Return a value, uniform in the logarithm."""
        return math.exp(self._rng.uniform(math.log(low), math.log(high)))

    def between(self, low: float, high: float) -> float:
        """Return a value, uniform."""
        return self._rng.uniform(low, high)

    def one(self, *values: int) -> int:
        """Return one of these."""
        return self._rng.choice(values)

    def noise(self, measured: Noise) -> Noise:
        """Return noise like that measured: the machine a little quieter or noisier."""
        return measured.scaled(self.of(0.7, 1.4))


def gpu(d: Draw, rate: float, launch_s: float) -> Device:
    """Return a card: a rate in fp32, and what comes with it."""
    return Device(
        rate=rate, launch_s=launch_s, latency_s=launch_s * d.between(0.1, 0.5), bf16_gain=d.of(1.1, 2.8),
        cache_items=math.inf, roughness=d.between(0.005, 0.025), dips=d.one(1, 2, 3), build_s=d.between(1.5, 4.0),
    )  # fmt: skip


def roomy(d: Draw) -> Memory:
    """Return memory in which every batch fits."""
    return Memory(80 * GB, d.of(1, 8) * GB, d.of(0.5, 6) * 1e6, d.between(0.55, 0.75))


def tight(d: Draw, largest: float) -> Memory:
    """Return memory that ends near a batch of `largest`."""
    capacity = d.one(16, 24, 40, 80) * GB
    fixed = capacity * d.between(0.05, 0.35)
    return Memory(capacity, fixed, (capacity - fixed) / largest, d.between(0.55, 0.75), d.between(0.0, 0.05))


def loader(d: Draw, item_s: float, cores: int, transfer_gb: float) -> Loader:
    """Return a loader for a card: CPU seconds an item, cores to do it, size of a thousand items."""
    return Loader(
        item_s=item_s, batch_s=d.of(1e-4, 1e-3), cores=cores * d.between(0.8, 1.0), contention=d.between(0.02, 0.25),
        handover_s=d.of(1e-4, 6e-4), handover_item_s=min(item_s * 0.03, d.of(5e-7, 1e-5)),
        transfer_rate=d.between(3, 6) * 1e3 / transfer_gb, pinned_gain=d.between(2.5, 4.5),
        pin_item_s=transfer_gb * 1e-3 / d.between(6, 12),
    )  # fmt: skip


def device_bound(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A large net on a card: the loader keeps up with a few workers."""
    rate = d.of(300, 3000)
    memory = tight(d, rate * GPU_SECONDS * d.between(0.3, 1.0))
    return (
        gpu(d, rate, d.of(4e-3, 2e-2)),
        memory,
        loader(d, d.of(0.5, 3) / rate, 16, d.of(0.2, 0.7)),
        d.noise(LARGE_NET),
    )


def loader_bound(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """Decoding images feeds a card too slowly, whatever the workers do."""
    cores = d.one(6, 8, 12, 16)
    item_s = d.of(2e-3, 8e-3)
    rate = cores / item_s * d.of(1.2, 6)
    memory = tight(d, rate * GPU_SECONDS * d.between(0.2, 1.0))
    return gpu(d, rate, d.of(3e-3, 1.5e-2)), memory, loader(d, item_s, cores, d.of(0.2, 0.7)), d.noise(LARGE_NET)


def launch_bound(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A small net: a step is issued more slowly than it is computed, until the batch is large."""
    rate = d.of(3e4, 3e5)
    feeding = loader(d, d.of(2e-5, 1e-4), d.one(8, 16), d.of(0.001, 0.01))
    return gpu(d, rate, d.of(2e-3, 1e-2)), roomy(d), feeding, d.noise(SMALL_NET)


def memory_bound(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A large model: memory ends at a batch of 12 to 400, before the card is full."""
    rate = d.of(30, 400)
    largest = d.of(12, min(400.0, rate * GPU_SECONDS))
    device = gpu(d, rate, d.of(2e-2, 8e-2))
    return device, tight(d, largest), loader(d, d.of(0.2, 2) / rate, 16, d.of(0.05, 0.7)), d.noise(LARGE_NET)


def transfer_bound(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """Large items: crossing to the card takes as long as computing, and pinning pays."""
    size = d.of(0.6, 6)
    rate = d.of(2.0, 10.0) * 1e3 / size
    feeding = loader(d, d.of(1, 6) / rate, 16, size)
    return gpu(d, rate, d.of(3e-3, 1e-2)), tight(d, rate * d.between(1.0, 3.0)), feeding, d.noise(LARGE_NET)


def declining(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A card whose rate falls once the working set leaves the cache: the best batch is a middle one."""
    device = msgspec.structs.replace(
        gpu(d, d.of(3e3, 5e4), d.of(2e-3, 6e-3)), cache_items=d.of(64, 512), cache_loss=d.between(0.1, 0.5)
    )
    feeding = loader(d, d.of(0.5, 5) / device.rate, 16, d.of(0.01, 0.1))
    return device, tight(d, device.rate * d.of(0.2, 0.5)), feeding, d.noise(SMALL_NET)


def cpu(d: Draw, rate: float, cores: int) -> Device:
    """Return a CPU as the device."""
    return Device(
        rate=rate, launch_s=d.of(3e-4, 2e-3), latency_s=d.of(1e-4, 1e-3), bf16_gain=d.of(0.35, 1.8), shares_cores=True,
        cores=cores, cache_items=d.of(32, 512), cache_loss=d.between(0.0, 0.4), roughness=d.between(0.01, 0.03),
        dips=d.one(1, 2, 3), build_s=d.between(0.05, 0.6),
    )  # fmt: skip


def cpu_loader(d: Draw, item_s: float, cores: int) -> Loader:
    """Return a loader beside a CPU that also computes: there is nothing to cross to."""
    return Loader(
        item_s, d.of(1e-4, 5e-4), cores, d.between(0.05, 0.4), d.of(2e-4, 6e-4), min(item_s * 0.05, d.of(1e-6, 1e-5))
    )


def cpu_compute(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A net that keeps a CPU busy; the loader takes little beside it."""
    rate, cores = d.of(1.5e3, 2e4), d.one(4, 8, 16)
    return cpu(d, rate, cores), roomy(d), cpu_loader(d, d.of(0.02, 0.3) * cores / rate, cores), d.noise(SMALL_NET)


def cpu_contended(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """Two to four cores that load and compute at once: more workers soon hurt."""
    rate, cores = d.of(1.5e3, 2e4), d.one(2, 2, 4)
    return cpu(d, rate, cores), roomy(d), cpu_loader(d, d.of(0.3, 3) * cores / rate, cores), d.noise(SMALL_NET)


def few_cores(d: Draw) -> tuple[Device, Memory, Loader, Noise]:
    """A fast card behind few cores: the best number of workers is about that of the cores."""
    cores = d.one(2, 3, 4, 6)
    item_s = d.of(3e-4, 4e-3)
    rate = cores / item_s * d.of(0.8, 2.5)
    return (
        gpu(d, rate, d.of(3e-3, 1e-2)), tight(d, rate * GPU_SECONDS * d.between(0.2, 1.0)),
        msgspec.structs.replace(loader(d, item_s, cores, d.of(0.1, 0.6)), contention=d.between(0.15, 0.5)),
        d.noise(LARGE_NET),
    )  # fmt: skip


KINDS: tuple[Callable[[Draw], tuple[Device, Memory, Loader, Noise]], ...] = (
    device_bound, loader_bound, launch_bound, memory_bound, transfer_bound, declining, cpu_compute, cpu_contended,
    few_cores,
)  # fmt: skip


def modelled(seed: int) -> list[Modelled]:
    """Return one surface of each kind."""
    return [
        Modelled(kind.__name__.replace("_", "-"), *kind(Draw(f"{kind.__name__}/{seed}")), seed=seed) for kind in KINDS
    ]
