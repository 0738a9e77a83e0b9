"""`torchstone.analyze_gpu_utilization`: what the accelerators here do just now, or while some work runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.advice import rules, setting
from torchstone.api.notebook import as_html
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import RAW
from torchstone.execution.inspection import inspect
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Gauge
from torchstone.report.document import Column, Document, Facts, Part, Role, Section, Table, Text, paragraphs

_GAUGES = (
    "device_utilization", "device_memory_used_bytes", "device_temperature_c", "device_power_w", "device_clock_hz",
    "device_throttled", "device_other_processes",
)  # fmt: skip
_IDLE = 0.05  # of the time


class GaugeReading(msgspec.Struct, frozen=True):
    """What one gauge said: mean, least and most of its readings, in the metric's unit."""

    mean: float
    least: float
    most: float
    readings: int


class DeviceUse(msgspec.Struct, frozen=True):
    """One accelerator over that time. `seen`: what its gauges say, in sentences."""

    device: DeviceInfo
    gauges: dict[str, GaugeReading]
    seen: tuple[str, ...]


class Utilization(msgspec.Struct, frozen=True):
    """All accelerators here. `missing`: of each kind that is not here, what was looked for and found instead."""

    seconds: float
    devices: tuple[DeviceUse, ...]
    missing: dict[str, str]

    def __str__(self) -> str:
        """Return lines to print."""
        if not self.devices:
            return "\n".join(("no accelerator found", *(f"  {kind}: {why}" for kind, why in self.missing.items())))
        return "\n".join(line for use in self.devices for line in _lines(use, self.seconds))

    def __repr__(self) -> str:
        """Return the same: it is what a cell of a notebook shows that ends with it."""
        return str(self)

    def _repr_html_(self) -> str | None:
        return as_html(lambda: Document("What the accelerators here do", tuple(_parts(self))))


def analyze_gpu_utilization(
    work: Callable[[], object] | None = None, *, seconds: float = 3.0, period_s: float = 0.1
) -> Utilization:
    """Read the gauges of every accelerator while `work()` runs, or for so many seconds from now.

    Without `work` it tells what else uses the device: nothing of this process runs meanwhile. Utilization is the share
    of time in which any kernel ran, not the share of the device's arithmetic. On a machine without an accelerator the
    answer says what was looked for. Raises UsageError for times that are not above 0, and what `work` raises.
    """
    if not seconds > 0.0 or not period_s > 0.0:
        raise UsageError(f"analyze_gpu_utilization: seconds={seconds}, period_s={period_s}; both must be above 0")
    found = inspect()
    devices = [device for device in found.devices if device.kind != "cpu"]
    watched = [_Watched(device) for device in devices]
    began_s = time.perf_counter()
    if not watched:
        if work is not None:
            work()
    elif work is None:
        _read_until(watched, lambda: time.perf_counter() - began_s >= seconds, period_s)
    else:
        _beside(watched, work, period_s)
    spent_s = time.perf_counter() - began_s
    return Utilization(spent_s, tuple(one.use() for one in watched), dict(found.missing))


class _Watched:
    def __init__(self, device: DeviceInfo) -> None:
        self._device = device
        self._gauges: Sequence[Gauge] = [
            gauge for _, source in registry.usable("telemetry") for gauge in source.open(os.getpid(), device)
            if gauge.metric in _GAUGES
        ]  # fmt: skip
        self._values: dict[str, list[float]] = {}

    def read(self) -> None:
        for gauge in self._gauges:
            value = gauge.read()
            if value is not None:
                self._values.setdefault(gauge.metric, []).append(value)

    def use(self) -> DeviceUse:
        gauges = {
            metric: GaugeReading(fmean(values), min(values), max(values), len(values))
            for metric, values in self._values.items()
        }
        return DeviceUse(self._device, gauges, tuple(seen_of(self._device, gauges)))


def seen_of(device: DeviceInfo, gauges: dict[str, GaugeReading]) -> list[str]:
    """Return what the gauges of a device say. The limits are rules of thumb; phases and curves tell why."""
    busy, held = gauges.get("device_utilization"), gauges.get("device_memory_used_bytes")
    said = []
    if busy is None:
        said.append("utilization is not available")
    elif busy.mean < _IDLE:
        said.append("almost idle: nothing ran on this device")
    elif busy.mean < setting.UTILIZATION[0]:
        said.append(
            f"in use {100 * busy.mean:.0f} % of the time: it waits, usually for data or kernel launches; "
            "use Diagnostics to see which"
        )
    else:
        said.append(f"in use {100 * busy.mean:.0f} % of the time: compute-bound, or the kernels are small")
    if held is not None and device.memory_bytes and held.most > rules.FULL_MEMORY.least * device.memory_bytes:
        share = 100 * held.most / device.memory_bytes
        said.append(f"{share:.0f} % of its memory was in use: larger batches may not fit")
    if (slow := gauges.get("device_throttled")) is not None and slow.most > 0.0:
        said.append("throttled by temperature or power")
    if (others := gauges.get("device_other_processes")) is not None and others.most > 0.0:
        said.append(f"{others.most:.0f} other processes use it: timings are unreliable")
    return said


def _beside(watched: Sequence[_Watched], work: Callable[[], object], period_s: float) -> None:
    done = threading.Event()
    reader = threading.Thread(target=_read_until, args=(watched, done.is_set, period_s), daemon=True)
    reader.start()
    try:
        work()
    finally:
        done.set()
        reader.join()


def _read_until(watched: Sequence[_Watched], ended: Callable[[], bool], period_s: float) -> None:
    while True:
        for one in watched:
            one.read()
        if ended():
            return
        time.sleep(period_s)


def _facts(device: DeviceInfo) -> list[str]:
    """Return what is known of a device beside its name."""
    memory = [f"{units.quantity(device.memory_bytes, 'bytes')} memory"] if device.memory_bytes else []
    told = (
        ("compute capability", device.compute_capability), ("driver", device.driver), ("runtime", device.runtime),
    )  # fmt: skip
    return memory + [f"{name} {value}" for name, value in told if value]


def _name(use: DeviceUse, seconds: float) -> str:
    return f"{use.device.kind}:{use.device.index} {use.device.name}, over {units.quantity(seconds, 's')}"


def _lines(use: DeviceUse, seconds: float) -> list[str]:
    lines = [_name(use, seconds)]
    lines += [f"  {', '.join(facts)}"] if (facts := _facts(use.device)) else []
    for metric, mean, low, high in _readings(use):
        lines.append(f"  {metric:<26}{mean:>12}  [{low}, {high}]")
    return lines + [f"  {sentence}" for sentence in use.seen]


def _readings(use: DeviceUse) -> Iterator[tuple[str, str, str, str]]:
    """Yield each gauge's name, mean, least and most with their unit."""
    for metric, found in use.gauges.items():
        unit = str(RAW[metric].unit)
        mean, low, high = (units.quantity(value, unit) for value in (found.mean, found.least, found.most))
        yield metric, mean, low, high


def _parts(found: Utilization) -> Iterator[Part]:
    """Yield what a notebook shows."""
    if not found.devices:
        yield Text("No accelerator found.", Role.HEADLINE)
        yield Facts(tuple(found.missing.items()))
    for use in found.devices:
        yield Text(f"{use.device.kind}:{use.device.index}: {'; '.join(use.seen)}.", Role.HEADLINE)
    for use in found.devices:
        titles, gauges = ("gauge", "mean", "least", "most"), tuple(zip(*_readings(use), strict=True))
        columns = (Column(title, cells, left=cells is gauges[0]) for title, cells in zip(titles, gauges, strict=False))
        yield Section(_name(use, found.seconds), (*paragraphs(_facts(use.device), Role.DETAIL), Table(tuple(columns))))
