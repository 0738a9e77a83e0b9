"""The host and the trial's processes: CPU time, memory, swap, clock, temperature, energy, hardware counters."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import (
    CoreWaits,
    Descendants,
    FunctionGauge,
    KeptOpen,
    Shared,
    file_gauge,
    first_line,
    present,
)

# ── host ─────────────────────────────────────────────────────────────────────────────────────────────────────

# The host as a whole: CPU time, steal, memory, swap, clock, temperature.

_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "x86_pkg_temp", "cpu-thermal")
_MOST_CORES = 8  # reading a core's clock may interrupt that core: a sample of them disturbs less than all


class HostSource(TelemetrySource):
    """Reads /proc and /sys on Linux, psutil elsewhere."""

    describes = "CPU time, memory, swap, clock and temperature of the host"

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc, self._sys = proc, sys

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        if not (self._proc / "stat").exists():
            return _by_psutil()
        times = Shared(_times(KeptOpen(self._proc / "stat")))
        return present(
            (
                times.gauge("host_busy_s", cumulative=True, evidence=True),
                times.gauge("host_steal_s", cumulative=True, evidence=True),
                FunctionGauge("quota_wait_s", _quota(self._proc, self._sys), cumulative=True, evidence=True),
                FunctionGauge("host_memory_used_bytes", _memory_used(KeptOpen(self._proc / "meminfo"))),
                FunctionGauge(
                    "host_swapped_bytes", _swapped(KeptOpen(self._proc / "vmstat", 1 << 15)), cumulative=True
                ),
                FunctionGauge("host_clock_hz", _mean(_clocks(self._sys))),
                *self._temperature(),
            )
        )

    def _temperature(self) -> Sequence[FunctionGauge]:
        chips = [folder for folder in (self._sys / "class/hwmon").glob("hwmon*") if _is_cpu(folder / "name")]
        zones = [folder for folder in (self._sys / "class/thermal").glob("thermal_zone*") if _is_cpu(folder / "type")]
        files = [chip / "temp1_input" for chip in sorted(chips)] + [zone / "temp" for zone in sorted(zones)]
        return [file_gauge("host_temperature_c", path, 1e-3) for path in files if path.exists()][:1]


def _is_cpu(name: Path) -> bool:
    return first_line(name) in _CPU_SENSORS


def _times(file: KeptOpen) -> Callable[[], Mapping[str, float]]:
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")

    def read() -> Mapping[str, float]:
        fields = (file.read() or b"").partition(b"\n")[0].split()
        if len(fields) < 9:
            return {}
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
        # Guests are already in user and nice.
        return {"host_busy_s": (user + nice + system + irq + softirq) * tick_s, "host_steal_s": steal * tick_s}

    return read


def _quota(proc: Path, sys: Path) -> Callable[[], float | None]:
    """Return what reads how long the CPU quota of our control group has held its processes up, in seconds.

    Version 2 of control groups counts microseconds, version 1 nanoseconds.
    """
    file = KeptOpen(_cpu_group(proc, sys) / "cpu.stat")

    def read() -> float | None:
        text = file.read()
        micro, nano = _named(text, b"throttled_usec"), _named(text, b"throttled_time")
        return micro[0] * 1e-6 if micro else nano[0] * 1e-9 if nano else None

    return read


def _cpu_group(proc: Path, sys: Path) -> Path:
    """Return the folder of our control group for the CPU; its root where the group is not shown, as in a container."""
    try:
        lines = [line.split(":", 2) for line in (proc / "self/cgroup").read_text().splitlines()]
    except OSError:  # no control groups, or not Linux
        lines = []
    own = {name: path for _, names, path in lines for name in names.split(",")}
    root = sys / "fs/cgroup" / ("cpu" if "cpu" in own else "")
    group = root / own.get("cpu", own.get("", "")).strip("/")
    return group if group.exists() else root


def _memory_used(file: KeptOpen) -> Callable[[], float | None]:
    def read() -> float | None:
        kib = _named(file.read(), b"MemTotal:", b"MemAvailable:")
        return None if kib is None else float((kib[0] - kib[1]) * 1024)

    return read


def _swapped(file: KeptOpen) -> Callable[[], float | None]:
    page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read() -> float | None:
        pages = _named(file.read(), b"\npswpin", b"\npswpout")
        return None if pages is None else float(sum(pages) * page_bytes)

    return read


def _named(text: bytes | None, *names: bytes) -> list[int] | None:
    found = [(text or b"").partition(name)[2].split(maxsplit=1)[:1] for name in names]
    return [int(value[0]) for value in found] if all(found) else None


def _clocks(sys: Path) -> Sequence[KeptOpen]:
    # Without cpufreq (a virtual machine) /proc/cpuinfo still shows a figure, but a constant one: no reading of a clock.
    files = sorted((sys / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    step = max(1, len(files) // _MOST_CORES)
    return [KeptOpen(path) for path in files[::step]]


def _mean(files: Sequence[KeptOpen]) -> Callable[[], float | None]:
    def read() -> float | None:
        khz = [value for file in files if (value := file.number()) is not None]
        return 1e3 * sum(khz) / len(khz) if khz else None

    return read


def _by_psutil() -> Sequence[FunctionGauge]:
    import psutil

    def times() -> Mapping[str, float]:
        now = psutil.cpu_times()
        return {"host_busy_s": sum(getattr(now, part, 0.0) for part in ("user", "nice", "system", "irq", "softirq"))}

    def used() -> float | None:
        memory = psutil.virtual_memory()
        return float(memory.total - memory.available)

    def swapped() -> float | None:
        swap = psutil.swap_memory()
        return float(swap.sin + swap.sout)

    return present(
        (
            Shared(times).gauge("host_busy_s", cumulative=True),
            FunctionGauge("host_memory_used_bytes", used),
            FunctionGauge("host_swapped_bytes", swapped, cumulative=True),
        )
    )


# ── perf_event ───────────────────────────────────────────────────────────────────────────────────────────────

# Hardware counters of the CPU in user mode, without root (perf_event_open(2)): Linux lets users count their processes
# where /proc/sys/kernel/perf_event_paranoid is 2 or less, without the kernel's share. The trial's process is counted
# and, from then on, every thread and process it starts (inherit); where the CPU has fewer counters than were asked for,
# the kernel takes turns, and a count is scaled by the time it was counted.

_CALL = {"x86_64": 298, "aarch64": 241}  # the number of the system call
_HARDWARE, _SIZE = 0, 128
_EVENTS = {"instructions": 1, "cpu_cycles": 0, "cache_misses": 3}  # PERF_COUNT_HW_…
_INHERIT, _NOT_KERNEL, _NOT_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 | 2  # read_format: total time enabled, total time running
_CLOSED_AT_EXEC = 1 << 3
_FLAGS_AT, _FORMAT_AT = 40, 32
_WHY = {
    errno.ENOENT: "the kernel shows no counters of this CPU, as in most virtual machines",
    errno.EOPNOTSUPP: "this CPU has no such counter",
    errno.ENODEV: "this CPU has no such counter",
    errno.EACCES: "the kernel refuses: /proc/sys/kernel/perf_event_paranoid is above 2",
    errno.EPERM: "the kernel refuses: a container, or perf_event_paranoid above 2",
    errno.ENOSYS: "this kernel has no perf_event_open",
}

Opening = Callable[[int, int], int]


class PerfEvent(TelemetrySource):
    """One file descriptor a counter; `opening` (number of an event, pid) gives it, or raises OSError."""

    describes = "instructions, cycles and cache misses of the trial in user mode (perf_event_open)"

    def __init__(self, opening: Opening | None = None) -> None:
        self._opening = opening or open_counter

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the counters of that process; none without one, and where the kernel refuses."""
        if pid is None:
            return ()
        found = []
        for metric, number in _EVENTS.items():
            try:
                found.append(FunctionGauge(metric, _Counter(self._opening(number, pid)).read, cumulative=True))
            except OSError:  # `refusal` says why
                continue
        return present(found)

    def refusal(self) -> str | None:
        try:
            os.close(self._opening(_EVENTS["instructions"], 0))
        except OSError as fault:
            why = _WHY.get(fault.errno or 0, os.strerror(fault.errno or 0))
            return f"{why} ({errno.errorcode.get(fault.errno or 0, fault.errno)})"
        return None


class _Counter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self) -> float | None:
        """Return the count, scaled to the whole time; None while it has not counted yet."""
        try:
            count, enabled, running = struct.unpack("=QQQ", os.read(self._descriptor, 24))
        except (OSError, struct.error):
            return None
        return count * (enabled / running) if running else None


def open_counter(number: int, pid: int) -> int:
    """Return the descriptor of a counter of a process. Raises OSError as the kernel refuses."""
    call = _CALL.get(platform.machine())
    if sys.platform != "linux" or call is None:
        raise OSError(errno.ENOSYS, "no perf_event_open")
    attributes = bytearray(_SIZE)
    struct.pack_into("=IIQ", attributes, 0, _HARDWARE, _SIZE, number)
    struct.pack_into("=Q", attributes, _FORMAT_AT, _TIMES)
    struct.pack_into("=Q", attributes, _FLAGS_AT, _INHERIT | _NOT_KERNEL | _NOT_HYPERVISOR)
    library = ctypes.CDLL(None, use_errno=True)
    given = (ctypes.c_char * _SIZE).from_buffer(attributes)
    found = library.syscall(call, given, pid, -1, -1, _CLOSED_AT_EXEC)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


# ── process ──────────────────────────────────────────────────────────────────────────────────────────────────


class ProcessSource(TelemetrySource):
    """Reads /proc on Linux, psutil elsewhere. Pages that a trial shares with its children count for each of them."""

    describes = "resident memory, CPU time and waits for a core of the trial's processes"

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        if pid is None:
            return ()
        by_proc = _ByProc(pid, self._proc) if (self._proc / str(pid) / "stat").exists() else None
        shared = Shared((by_proc or _ByPsutil(pid)).read)
        # psutil looks at every process of the machine: ten times a second, that would disturb by itself.
        cpu_s = shared.gauge("process_cpu_s", cumulative=True, evidence=by_proc is not None)
        found = [shared.gauge("rss_bytes"), cpu_s]
        if by_proc is not None:
            found.append(shared.gauge("process_stopped", evidence=True))
            found.append(FunctionGauge("core_wait_s", by_proc.waited_s, cumulative=True, evidence=True))
        return present(found)


class _ByProc:
    def __init__(self, pid: int, proc: Path) -> None:
        self._family = Descendants(pid, proc)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        self._ticks = 0
        self._waits = CoreWaits(pid, proc)

    def read(self) -> Mapping[str, float]:
        stats = self._family.stats()
        if not stats:
            return {}
        # From the third field on: utime 11, stime 12, and of children that have ended cutime 13, cstime 14; rss 21.
        # A child that ends between its parent's reading and its own is in neither: the count must not fall for that.
        self._ticks = max(self._ticks, sum(int(field) for stat in stats for field in stat[11:15]))
        pages = sum(int(stat[21]) for stat in stats)
        stopped = stats[0][0] in (b"T", b"t")
        return {
            "rss_bytes": float(pages * self._page_bytes),
            "process_cpu_s": self._ticks * self._tick_s,
            "process_stopped": float(stopped),
        }

    def waited_s(self) -> float | None:
        """Return how long the threads of the trial's own process, ended ones included, have waited for a core."""
        return self._waits.total_s()


class _ByPsutil:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._root: Any = None
        self._cpu_s = 0.0

    def read(self) -> Mapping[str, float]:
        import psutil

        rss_bytes, cpu_s, alive = 0, 0.0, False
        try:
            self._root = self._root or psutil.Process(self._pid)
            family = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:  # it has ended, or is another user's
            return {}
        for process in family:
            try:
                memory, times = process.memory_info(), process.cpu_times()
            except psutil.Error:  # ended between the two calls
                continue
            alive = True
            rss_bytes += memory.rss
            cpu_s += times.user + times.system + getattr(times, "children_user", 0.0)
            cpu_s += getattr(times, "children_system", 0.0)
        self._cpu_s = max(self._cpu_s, cpu_s)  # as above; and sums of other parts are rounded otherwise
        return {"rss_bytes": float(rss_bytes), "process_cpu_s": self._cpu_s} if alive else {}


# ── rapl ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Rapl(TelemetrySource):
    """Whole packages only: cores and uncore are parts of a package, psys contains it, and -mmio counts it again."""

    describes = "energy of the CPU packages (RAPL)"

    def __init__(self, root: Path = Path("/sys/class/powercap")) -> None:
        self._root = root

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the gauge if every package can be read: most systems let only root."""
        zones = [zone for zone in self._root.glob("intel-rapl:*") if first_line(zone / "name").startswith("package-")]
        ranges = [first_line(zone / "max_energy_range_uj") for zone in zones]
        if not zones or not all(text.isdigit() for text in ranges):
            return ()
        packages = [_Package(zone, int(text)) for zone, text in zip(zones, ranges, strict=True)]
        return present((FunctionGauge("package_energy_j", lambda: _total_j(packages), cumulative=True),))


class _Package:
    """One counter, unwrapped: right as long as it is read more often than it wraps (a minute at the very least)."""

    def __init__(self, zone: Path, range_uj: int) -> None:
        self._file = KeptOpen(zone / "energy_uj")
        self._range_uj = range_uj
        self._last_uj = 0
        self._wrapped_uj = 0

    def read(self) -> int | None:
        now_uj = self._file.number()
        if now_uj is None:
            return None
        if now_uj < self._last_uj:
            self._wrapped_uj += self._range_uj
        self._last_uj = now_uj
        return now_uj + self._wrapped_uj


def _total_j(packages: Sequence[_Package]) -> float | None:
    total_uj = 0
    for package in packages:
        now_uj = package.read()
        if now_uj is None:
            return None  # the others alone would look like a fall
        total_uj += now_uj
    return total_uj * 1e-6


PLUGINS: Mapping[str, TelemetrySource] = {
    "host": HostSource(),
    "perf_event": PerfEvent(),
    "process": ProcessSource(),
    "rapl": Rapl(),
}
