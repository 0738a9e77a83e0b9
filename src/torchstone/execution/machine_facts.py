"""The host and the settings that move timings, read without torch; and whether this is the machine it was then."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo, Host, Machine
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import TelemetrySource

_ENVIRONMENT = re.compile(
    r"(OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|OMP_(WAIT_POLICY|PROC_BIND|PLACES)|(KMP|MALLOC|TORCHINDUCTOR|NCCL)_\w+"
    r"|(CUDA|HIP|ROCR)_VISIBLE_DEVICES|CUDA_(DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|PYTORCH_\w*ALLOC_CONF"
    r"|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|GLIBC_TUNABLES|LD_PRELOAD|TOKENIZERS_PARALLELISM"
)
_KERNEL = {
    "aslr": "proc/sys/kernel/randomize_va_space",
    "swappiness": "proc/sys/vm/swappiness",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "smt": "sys/devices/system/cpu/smt/control",
}
_HOST = ("hostname", "processor", "physical_cores", "logical_cores", "memory_bytes", "governor")
_DEVICE = ("name", "memory_bytes", "uuid", "driver")
_SOFTWARE = ("python", "torch", "transformers", "timm", "torchvision")


def host(root: Path = Path("/")) -> Host:
    """Return what the operating system says of this computer."""
    return Host(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        processor=_processor(root),
        physical_cores=_physical_cores(root),
        logical_cores=os.cpu_count(),
        memory_bytes=_memory_bytes(),
        governor=_governor(root),
    )


def settings(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Mapping[str, str | None]:
    """Return the variables that are set, and the kernel's switches; None for a switch that cannot be read."""
    told: dict[str, str | None] = {
        name: environment[name] for name in sorted(environment) if _ENVIRONMENT.fullmatch(name)
    }
    told.update({name: _line(root / path) for name, path in _KERNEL.items()})
    told["transparent_hugepages"] = _chosen(_line(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    told["turbo"] = _turbo(root / "sys/devices/system/cpu")
    told["cgroup_cpu_max"] = _cpu_max(root)
    told["cpu_affinity"] = _affinity()
    told["hardware_counters"] = _counters()
    return told


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip() or None
    except OSError:  # another kernel, or not ours to read
        return None


def _chosen(line: str | None) -> str | None:
    marked = re.search(r"\[(\w+)\]", line or "")
    return marked[1] if marked else line


def _turbo(cpus: Path) -> str | None:
    intel, others = _line(cpus / "intel_pstate/no_turbo"), _line(cpus / "cpufreq/boost")
    if intel is not None:
        return "off" if intel == "1" else "on"
    return None if others is None else "on" if others == "1" else "off"


def _cpu_max(root: Path) -> str | None:
    """Return quota and period in µs of this process's control group ("max 100000" is no limit)."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None
    paths = {controllers: path.lstrip("/") for _, controllers, path in (g.split(":", 2) for g in groups)}
    for folder in (root / "sys/fs/cgroup" / paths.get("", ""), root / "sys/fs/cgroup"):
        if (line := _line(folder / "cpu.max")) is not None:
            return line
    first = root / "sys/fs/cgroup/cpu" / next((p for c, p in paths.items() if "cpu" in c.split(",")), "")
    quota, period = _line(first / "cpu.cfs_quota_us"), _line(first / "cpu.cfs_period_us")
    return f"{'max' if quota == '-1' else quota} {period}" if quota and period else None


def _counters() -> str:
    """Return whether hardware counters can be read without root, or why not."""
    source: TelemetrySource = registry.load("telemetry", "perf_event")
    why = source.refusal()
    return "instructions, cycles, cache misses" if why is None else f"none: {why}"


def _affinity() -> str | None:
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return f"all {len(cores)}" if len(cores) == os.cpu_count() else ",".join(map(str, cores))


def _processor(root: Path) -> str | None:
    try:
        info = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        info = ""
    named = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    return named[1].strip() if named else _sysctl("machdep.cpu.brand_string") or platform.processor() or None


def _physical_cores(root: Path) -> int | None:
    folders = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology")
    cores = {(_line(folder / "physical_package_id"), _line(folder / "core_id")) for folder in folders}
    if cores:
        return len(cores)
    told = _sysctl("hw.physicalcpu")
    return int(told) if told and told.isdigit() else None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _governor(root: Path) -> str | None:
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    told = sorted({line for file in files if (line := _line(file)) is not None})
    return "+".join(told) or None


def _sysctl(name: str) -> str | None:
    if platform.system() != "Darwin":
        return None
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):  # a sandbox without sysctl
        return None
    return done.stdout.strip() or None


def of_host(then: Machine, now: Host, settings: Mapping[str, str | None]) -> list[str]:
    """Return what differs of the host and its settings, each in a few words. No torch is needed to know them."""
    found = list(_changed({n: getattr(then.host, n) for n in _HOST}, {n: getattr(now, n) for n in _HOST}))
    return [*found, *_changed(then.settings, settings)]


def of_devices(then: Machine, now: Machine, placements: Sequence[Placement]) -> list[str]:
    """Return what differs of the devices in use and of the software."""
    found: list[str] = []
    for place in placements:
        pair = (_facts(m.device(place.device, place.index)) for m in (then, now))
        found += (f"{place} {words}" for words in _changed(*pair))
    versions = ({n: m.software.get(n) for n in _SOFTWARE} for m in (then, now))
    return [*found, *_changed(*versions)]


def _facts(device: DeviceInfo | None) -> Mapping[str, object]:
    return {name: getattr(device, name, None) for name in _DEVICE}


def _changed(then: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            yield f"{name} was {then.get(name)}, is {now.get(name)}"
