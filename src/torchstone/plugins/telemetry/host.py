"""The host as a whole: CPU time, steal, memory, swap, clock, temperature."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import FunctionGauge, KeptOpen, Shared, file_gauge, first_line, present

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


PLUGIN: TelemetrySource = HostSource()
