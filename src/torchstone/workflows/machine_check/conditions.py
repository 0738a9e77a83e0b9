"""What was seen of a machine, judged: fit, noisy or unfit to measure on, each with what to do about it.

Pure functions on numbers. Limits are shares of time, of cores and of memory; where a figure of this project stands
behind one, it is beside it.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from torchstone.core.schema.advice import Statement
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


_PROC = Path("/proc")


def spin(duration_s: float, gauges: Gauges) -> Spun:
    """Spin for so many seconds on one core.

    Fixed-time-quantum sampling as of Sottile & Minnich (Analysis of Microbenchmarks for Performance Tuning of
    Clusters, CLUSTER 2004): the loop's pauses are the time that interrupts, neighbours and hypervisors took.
    """
    before, busy_s, own_s = _cpu_times(_PROC), gauges.read("host_busy_s"), time.process_time()
    began_s = time.perf_counter()
    lost_s, longest_s = _spun(duration_s)
    elapsed_s = time.perf_counter() - began_s
    after, now_busy_s, own_s = _cpu_times(_PROC), gauges.read("host_busy_s"), time.process_time() - own_s
    cores = None
    if busy_s is not None and now_busy_s is not None:
        cores = max(0.0, (now_busy_s - busy_s - own_s) / elapsed_s)
    return Spun(lost_s / elapsed_s, longest_s, cores, busiest_processes(before, after, elapsed_s, _PROC))


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


def busiest_processes(before: Mapping[int, float], after: Mapping[int, float], elapsed_s: float, proc: Path) -> str:
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


class Fitness(StrEnum):
    """Whether a condition, or a machine as a whole, allows valid measurements."""

    FIT = "fit"
    NOISY = "noisy"  # differences of a few percent will not be found, or only with many trials
    UNFIT = "unfit"  # what is measured now says little
    UNKNOWN = "unknown"  # this system does not tell; stands in nobody's way


_ORDER = (Fitness.UNKNOWN, Fitness.FIT, Fitness.NOISY, Fitness.UNFIT)


class MachineCondition(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was seen, as a number too where it is one, and the advice.

    The texts of `seen` and `advice` stand in report/diagnosis_messages.py.
    """

    name: str
    seen: tuple[Statement, ...]
    fitness: Fitness
    advice: Statement | None = None
    value: float | None = None


def machine_verdict(conditions: list[MachineCondition]) -> Fitness:
    """Return the verdict on the machine: that of its worst condition."""
    found = max((c.fitness for c in conditions), key=_ORDER.index, default=Fitness.UNKNOWN)
    return Fitness.FIT if found == Fitness.UNKNOWN else found


def _condition(
    name: str, seen: Statement, fitness: Fitness, advice: str | None = None, value: float | None = None
) -> MachineCondition:
    """Return a condition; the advice, by its id, where it is not fit."""
    advised = Statement(advice) if advice is not None and fitness != Fitness.FIT else None
    return MachineCondition(name, (seen,), fitness, advised, value)


def _graded(name: str, seen: Statement, value: float, noisy: float, unfit: float, advice: str) -> MachineCondition:
    fitness = Fitness.UNFIT if value > unfit else Fitness.NOISY if value > noisy else Fitness.FIT
    return _condition(name, seen, fitness, advice, value)


def _unreported(name: str, why: str = "not_reported") -> MachineCondition:
    return _condition(name, Statement(why), Fitness.UNKNOWN)


def clock(resolution_s: float) -> MachineCondition:
    """Judge the smallest step of the clock, cost of reading it included."""
    seen = Statement("clock_steps", {"resolution_s": resolution_s})
    return _graded("clock", seen, resolution_s, 1e-6, 1e-3, "measure_longer_steps")


def lost_time(share: float, longest_s: float) -> MachineCondition:
    """Judge how much of a core's time a spinning loop lost, and the longest pause in it."""
    seen = Statement("core_loses", {"share": share, "longest_s": longest_s})
    return _graded("interruptions", seen, share, 0.005, 0.05, "stop_what_takes_time")


def within(spread: float) -> MachineCondition:
    """Judge the relative spread of steps inside one process."""
    seen = Statement("spread_in_process", {"spread": spread})
    return _graded("spread of steps", seen, spread, 0.05, 0.3, "longer_windows")


def between(spread: float, processes: int) -> MachineCondition:
    """Judge the relative spread of the medians of equal processes: this, not the steps', is the noise floor."""
    seen = Statement("spread_of_processes", {"spread": spread, "processes": processes})
    return _graded("spread of processes", seen, spread, 0.03, 0.2, "compare_with_ab")


def stolen_time(share: float | None) -> MachineCondition:
    """Judge the share of the CPU time that the hypervisor gave to others while this machine was busy."""
    if share is None:
        return _unreported("steal")
    return _graded("steal", Statement("stolen", {"share": share}), share, 0.005, 0.05, "host_overcommitted")


def cores_kept_busy(cores: float | None, total: int, names: str) -> MachineCondition:
    """Judge how many cores others keep busy (one busy process makes a 2-thread step 5 to 15 times slower)."""
    if cores is None:
        return _unreported("other processes")
    seen = Statement("cores_busy_by" if names else "cores_busy", {"cores": cores, "total": total, "names": names})
    return _graded("other processes", seen, cores, 0.15, max(0.3, 0.25 * total), "stop_other_processes")


def device_neighbours(count: float | None) -> MachineCondition:
    """Judge the processes of others on the accelerator."""
    if count is None:
        return _unreported("processes on the device")
    seen = Statement("one_on_device" if count == 1 else "others_on_device", {"count": count})
    return _graded("processes on the device", seen, count, 0.0, 1.0, "wait_or_other_device")


def throttling(held: float | None, events: int | None) -> MachineCondition:
    """Judge whether a power or thermal limit holds clocks down: of the device, and the CPU's counter of events."""
    if held is None and events is None:
        return _unreported("throttling")
    seen = [Statement("device_throttled", {"share": held})] if held is not None else []
    seen += [Statement("cpu_throttled", {"events": events})] if events is not None else []
    bad = bool(held) or bool(events)
    advice = Statement("check_cooling") if bad else None
    return MachineCondition("throttling", tuple(seen), Fitness.NOISY if bad else Fitness.FIT, advice)


def governor(word: str | None) -> MachineCondition:
    """Judge what chooses the CPU's clock."""
    if word is None:
        return _unreported("governor", "no_governor")
    fitness = Fitness.FIT if word == "performance" else Fitness.NOISY
    return _condition("governor", Statement("set_to", {"word": word}), fitness, "performance_governor")


def turbo(word: str | None) -> MachineCondition:
    """Tell whether the clock may rise above its base: it is never in the way, but it depends on heat and company."""
    if word is None:
        return _unreported("turbo")
    advice = Statement("clock_depends") if word == "on" else None
    return MachineCondition("turbo", (Statement("set_to", {"word": word}),), Fitness.FIT, advice)


def swap_traffic(swapped_bytes: float | None) -> MachineCondition:
    """Judge what was swapped in and out during the check."""
    if swapped_bytes is None:
        return _unreported("swap")
    seen = Statement("nothing_swapped" if swapped_bytes <= 0 else "swapped", {"swapped_bytes": swapped_bytes})
    return _graded("swap", seen, swapped_bytes, 0.0, float(16 << 20), "free_memory")


def memory_room(free_bytes: float | None, total_bytes: float | None) -> MachineCondition:
    """Judge the memory that is free."""
    if free_bytes is None or not total_bytes:
        return _unreported("memory")
    share = free_bytes / total_bytes
    seen = Statement("memory_free", {"free_bytes": free_bytes, "total_bytes": total_bytes})
    fitness = Fitness.UNFIT if share < 0.03 else Fitness.NOISY if share < 0.15 else Fitness.FIT
    return _condition("memory", seen, fitness, "stop_programs", share)


def disk_room(free_bytes: int, folder: str) -> MachineCondition:
    """Judge the room for records."""
    seen = Statement("disk_free", {"free_bytes": float(free_bytes), "folder": folder})
    fitness = Fitness.UNFIT if free_bytes < 50 << 20 else Fitness.NOISY if free_bytes < 1 << 30 else Fitness.FIT
    return _condition("disk", seen, fitness, "free_disk", free_bytes)


def temperature(name: str, celsius: float | None) -> MachineCondition:
    """Judge a temperature: near its limit a chip lowers its clock."""
    if celsius is None:
        return _unreported(name)
    return _graded(name, Statement("degrees", {"celsius": celsius}), celsius, 80.0, 93.0, "cool_down")


def exclusive_use(holder: str | None) -> MachineCondition:
    """Judge whether another torchstone measures on the device."""
    if holder is None:
        return _condition("other torchstones", Statement("no_other_torchstone"), Fitness.FIT)
    return _condition("other torchstones", Statement("set_to", {"word": holder}), Fitness.UNFIT, "wait_for_its_end")


def aa_test(difference: float | None, verdict: str) -> MachineCondition:
    """Judge an A/A test: what difference a minute of `ab` would find, and whether equal code was called equal."""
    name = "A/A test"
    if difference is None:
        return _condition(name, Statement("aa_not_finished", {"why": verdict}), Fitness.UNFIT, "see_conditions_above")
    if verdict in ("better", "worse"):
        seen = Statement("aa_false_alarm", {"verdict": verdict})
        return _condition(name, seen, Fitness.NOISY, "check_again", difference)
    seen = Statement("aa_detects", {"difference": difference})
    return _graded(name, seen, difference, 0.03, 0.15, "longer_ab")
