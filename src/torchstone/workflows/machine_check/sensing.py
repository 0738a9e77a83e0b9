"""Looks at the operating system for a moment: who else computes, what a spinning loop loses, how hot and full it is."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource

_LOST_S = 20e-6  # a pause of the loop longer than this is no cache miss: somebody else had the core
_MOST_NAMED = 3
_NOTEWORTHY_CORES = 0.03


class Gauges:
    """The gauges of the host and of a device. Absent ones answer None."""

    def __init__(self, device: DeviceInfo | None) -> None:
        self._gauges: dict[str, Gauge] = {}
        for name in registry.names("telemetry"):
            source: TelemetrySource = registry.load("telemetry", name)
            for gauge in source.open(os.getpid(), device):
                self._gauges.setdefault(gauge.metric, gauge)

    def read(self, metric: str) -> float | None:
        """Return the present value of a raw metric."""
        gauge = self._gauges.get(metric)
        return gauge.read() if gauge is not None else None


class Spun(msgspec.Struct, frozen=True):
    """What a loop lost that does nothing but read the clock, and who else had the cores meanwhile."""

    lost_share: float
    longest_s: float
    others_cores: float | None
    others: str


def spin(duration_s: float, gauges: Gauges, proc: Path = Path("/proc")) -> Spun:
    """Spin for so many seconds on one core.

    Fixed-time-quantum sampling as of Sottile & Minnich (Analysis of Microbenchmarks for Performance Tuning of
    Clusters, CLUSTER 2004): the loop's pauses are the time that interrupts, neighbours and hypervisors took.
    """
    before, busy_s, own_s = _cpu_times(proc), gauges.read("host_busy_s"), time.process_time()
    began_s = time.perf_counter()
    lost_s, longest_s = _spun(duration_s)
    elapsed_s = time.perf_counter() - began_s
    after, now_busy_s, own_s = _cpu_times(proc), gauges.read("host_busy_s"), time.process_time() - own_s
    cores = None
    if busy_s is not None and now_busy_s is not None:
        cores = max(0.0, (now_busy_s - busy_s - own_s) / elapsed_s)
    return Spun(lost_s / elapsed_s, longest_s, cores, named(before, after, elapsed_s, proc))


def _spun(duration_s: float, now: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    lost_s = longest_s = 0.0
    collecting = gc.isenabled()
    gc.disable()
    try:
        last_s = now()
        ends_s = last_s + duration_s
        while last_s < ends_s:
            this_s = now()
            if this_s - last_s > _LOST_S:
                lost_s += this_s - last_s
                longest_s = max(longest_s, this_s - last_s)
            last_s = this_s
    finally:
        if collecting:
            gc.enable()
    return lost_s, longest_s


def _cpu_times(proc: Path) -> Mapping[int, float]:
    """Return the CPU seconds of every process but this one; nothing where there is no /proc."""
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
    found: dict[int, float] = {}
    for folder in proc.glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile, or is hidden
            continue
        if len(fields) > 12:
            found[int(folder.name)] = (int(fields[11]) + int(fields[12])) * tick_s
    return found


def named(before: Mapping[int, float], after: Mapping[int, float], elapsed_s: float, proc: Path) -> str:
    """Return the processes that used most CPU time between two readings, with the cores they kept busy."""
    used = {pid: (after[pid] - before.get(pid, after[pid])) / elapsed_s for pid in after}
    most = sorted(used, key=used.__getitem__, reverse=True)[:_MOST_NAMED]
    return ", ".join(f"{_name(pid, proc)} {used[pid]:.2f}" for pid in most if used[pid] >= _NOTEWORTHY_CORES)


def _name(pid: int, proc: Path) -> str:
    try:
        name = (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = "a process"
    return f"{name} (pid {pid})"


def throttle_events(cpus: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """Return how often the CPU's cores have lowered their clock for heat since boot; None where nobody counts."""
    return _sum(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))


def _sum(files: Iterable[Path]) -> int | None:
    counts = []
    for path in files:
        try:
            counts.append(int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # not ours to read
            continue
    return sum(counts) if counts else None
