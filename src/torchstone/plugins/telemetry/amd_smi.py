"""AMD devices: through amdsmi where ROCm brought it, else through the files that the amdgpu driver shows in /sys."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import (
    FunctionGauge,
    OtherProcesses,
    card_folder,
    file_gauge,
    first_line,
    library_gauge,
    present,
    same_bus,
)

_AMD = "0x1002"


def by_files(drm: Path, device: DeviceInfo) -> Sequence[FunctionGauge]:
    """Return the gauges that the driver's files answer; no library is needed, and energy has no file."""
    found = card_folder(drm, _AMD, device.bus_id)
    if found is None:
        return ()
    card = found / "device"
    sensors = next(iter(sorted(card.glob("hwmon/hwmon*"))), card / "hwmon")
    power = next((n for n in ("power1_average", "power1_input") if first_line(sensors / n).isdigit()), "power1_average")
    return present(
        (
            file_gauge("device_utilization", card / "gpu_busy_percent", 0.01),
            file_gauge("device_memory_used_bytes", card / "mem_info_vram_used"),
            file_gauge("device_temperature_c", sensors / "temp1_input", 1e-3),
            file_gauge("device_power_w", sensors / power, 1e-6),
            file_gauge("device_clock_hz", sensors / "freq1_input"),
        )
    )


_WATT_UW = 1_000_000


class AmdSmi(TelemetrySource):
    """Each gauge by amdsmi if that answers, by /sys if not."""

    describes = "AMD devices: utilization, memory, power, energy, clock, throttling (amdsmi, /sys)"

    def __init__(self, library: Any = None, drm: Path = Path("/sys/class/drm"), proc: Path = Path("/proc")) -> None:
        self._library, self._drm, self._proc = library, drm, proc

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        if device is None or device.kind != "rocm":
            return ()
        library = self._library or _amdsmi()
        handle = _handle(library, device) if library is not None else None
        by_library = _by_library(library, handle, pid, self._proc) if handle is not None else ()
        told = {gauge.metric for gauge in by_library}
        return [*by_library, *(gauge for gauge in by_files(self._drm, device) if gauge.metric not in told)]


def _amdsmi() -> Any:
    """Import and start amdsmi; None where it is not there."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints where its shared library is missing
            library: Any = import_module("amdsmi")
            library.amdsmi_init()
    except Exception:
        # Absent it raises ImportError, KeyError or OSError, without a driver its own exceptions: all mean "use /sys".
        return None
    return library


def _handle(library: Any, device: DeviceInfo) -> Any:
    try:
        handles = list(library.amdsmi_get_processor_handles())
        if device.bus_id is None:
            return handles[0] if len(handles) == 1 else None
        same = [h for h in handles if same_bus(library.amdsmi_get_gpu_device_bdf(h), device.bus_id)]
    except library.AmdSmiException:  # the driver does not answer: /sys may
        return None
    return same[0] if same else None


def _by_library(library: Any, handle: Any, pid: int | None, proc: Path) -> Sequence[FunctionGauge]:
    def guarded(metric: str, read: Callable[[], object], scale: float = 1.0, cumulative: bool = False) -> FunctionGauge:
        def scaled() -> float | None:
            value = read()
            return value * scale if isinstance(value, int | float) else None  # "N/A" is its word for missing

        return library_gauge((library.AmdSmiException,), metric, scaled, cumulative)

    gauges = present(
        (
            guarded("device_utilization", lambda: library.amdsmi_get_gpu_activity(handle)["gfx_activity"], 0.01),
            guarded("device_memory_used_bytes", lambda: _memory(library, handle)),
            guarded("device_temperature_c", lambda: _temperature(library, handle)),
            guarded("device_power_w", lambda: _power(library.amdsmi_get_power_info(handle))),
            guarded("device_power_limit_w", lambda: _limit_uw(library.amdsmi_get_power_info(handle)), 1e-6),
            guarded("device_clock_hz", lambda: _clock(library, handle), 1e6),
            guarded("device_throttled", lambda: _throttled(library.amdsmi_get_gpu_metrics_info(handle))),
        )
    )
    energy = guarded("device_energy_j", lambda: _energy_uj(library.amdsmi_get_energy_count(handle)), 1e-6, True)
    moving = (
        [FunctionGauge("device_energy_j", _once_moved(energy), cumulative=True)] if energy.read() is not None else []
    )
    if pid is None:
        return [*gauges, *moving]
    beside = OtherProcesses(pid, proc)

    def count() -> float | None:
        return beside.among([told["pid"] for told in library.amdsmi_get_gpu_process_list(handle)])

    try:
        count()
    except (library.AmdSmiException, AttributeError, KeyError):  # not told to this user, or by this version
        return [*gauges, *moving]
    others = guarded("device_other_processes", count)
    others.between_windows = True  # as with NVML, it walks the processes of the whole host
    return [*gauges, *moving, others]


def _once_moved(counter: FunctionGauge) -> Callable[[], float | None]:
    """Return a reading that is None until the counter has moved: some stand still for ever (ROCm/amdsmi#22)."""
    first = counter.read()
    moves = False

    def read() -> float | None:
        nonlocal moves
        now = counter.read()
        moves = moves or (now is not None and now != first)
        return now if moves else None

    return read


def _number(told: Mapping[str, object], *names: str) -> object:
    return next((told[name] for name in names if isinstance(told.get(name), int | float)), None)


def _memory(library: Any, handle: Any) -> object:
    return library.amdsmi_get_gpu_memory_usage(handle, library.AmdSmiMemoryType.VRAM)


def _temperature(library: Any, handle: Any) -> object:
    kinds, current = library.AmdSmiTemperatureType, library.AmdSmiTemperatureMetric.CURRENT
    for kind in (kinds.EDGE, kinds.HOTSPOT):  # Instinct cards have no edge sensor
        try:
            value = library.amdsmi_get_temp_metric(handle, kind, current)
        except library.AmdSmiException:  # the next sensor
            continue
        if isinstance(value, int | float):
            return value
    return None


def _power(told: Mapping[str, object]) -> object:
    # "N/A" on the second die of an MI250; 0 is what some versions write for it.
    return _number(told, "current_socket_power", "socket_power", "average_socket_power") or None


def _limit_uw(told: Mapping[str, object]) -> object:
    # 0 on the second die of an MI250. Under a watt it is no limit, and whose unit it is in is not known.
    limit = _number(told, "power_limit")
    return limit if isinstance(limit, int | float) and limit >= _WATT_UW else None


def _clock(library: Any, handle: Any) -> object:
    return _number(library.amdsmi_get_clock_info(handle, library.AmdSmiClkType.GFX), "clk", "cur_clk")


def _throttled(told: Mapping[str, object]) -> object:
    status = _number(told, "indep_throttle_status", "throttle_status")
    return None if status is None else float(status != 0)


def _energy_uj(told: Mapping[str, object]) -> object:
    count, resolution_uj = _number(told, "energy_accumulator", "power"), _number(told, "counter_resolution")
    both = isinstance(count, int | float) and isinstance(resolution_uj, int | float)
    return count * resolution_uj if both else None  # type: ignore[operator]


PLUGIN: TelemetrySource = AmdSmi()
