"""NVIDIA devices, asked through NVML: the driver's own library, which needs no CUDA context and disturbs no trial."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import FunctionGauge, OtherProcesses, library_gauge, present

# How often an energy counter moves: what is counted between two of its ticks is booked on the later one.
#
# NVIDIA's moves every 20 to 100 ms, as the card has it, whatever it is asked (Yang, Adamek & Armour, Part-time power
# measurements: nvidia-smi's lack of attention, arXiv 2312.02741): a window of six ticks is known to a sixth.

_LONGEST_S, _PERIOD_S = 0.6, 0.002
_CHANGES = 5


class Ticking(FunctionGauge):
    """A cumulative gauge that can say how often it moves. That takes some tenths of a second.

    `tick_s` must not be called while anything is measured: it reads the counter every two milliseconds.
    """

    __slots__ = ("_clock", "_sleep")

    def __init__(
        self,
        counter: FunctionGauge,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(counter.metric, counter.read, cumulative=True)
        self._clock, self._sleep = clock, sleep

    def tick_s(self) -> float | None:
        """Return the median time between two moves of the counter, in seconds; None where there were too few."""
        moved_s: list[float] = []
        began_s, before = self._clock(), self.read()
        while len(moved_s) < _CHANGES and self._clock() - began_s < _LONGEST_S:
            self._sleep(_PERIOD_S)
            now = self.read()
            if now != before and now is not None:
                moved_s.append(self._clock())
            before = now
        return median(after - earlier for earlier, after in pairwise(moved_s)) if len(moved_s) > 1 else None


# Power and energy are measured for the card, utilization for none of its slices (NVIDIA Multi-Instance GPU User Guide);
# drivers differ in whether they refuse to tell them of a slice or tell the card's.
OF_THE_CARD = frozenset({"device_utilization", "device_power_w", "device_power_limit_w", "device_energy_j"})
# Of a card that is divided, when it is not known which slice the trial is on.
OF_ALL_SLICES = OF_THE_CARD | {"device_memory_used_bytes", "device_other_processes", "device_working_processes"}


def not_of_the_trial(nvml: Any, handle: Any) -> frozenset[str]:
    """Return the metrics that NVML tells of this handle and that are of more than the trial's device."""
    if _is_nonzero(nvml, lambda: _number(nvml.nvmlDeviceIsMigDeviceHandle(handle))):
        return OF_THE_CARD
    if _is_nonzero(nvml, lambda: _number(nvml.nvmlDeviceGetMigMode(handle)[0])):
        return OF_ALL_SLICES
    return frozenset()


def _is_nonzero(nvml: Any, ask: Callable[[], int]) -> bool:
    try:
        return ask() != 0
    except (nvml.NVMLError, AttributeError):  # a card, a driver or a pynvml from before there was MIG
        return False


def _number(answer: Any) -> int:
    return int(getattr(answer, "value", answer))  # pynvml hands out one of them as ctypes made it


_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT: power_usage is the mean of a second on Ampere and newer
_FIELD_OF_TYPE = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
# Software power cap, hardware slowdown, software thermal, hardware thermal, power brake. Not: idle, clocks a user set.
_HELD_DOWN = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
_POWER_CAP = 0x4
_ADMITS_ONE = (1, 2, 3)  # compute modes: one thread, nobody, one process


class Nvml(TelemetrySource):
    """Finds the device by its UUID or bus id, else by its index among the visible ones."""

    describes = "NVIDIA devices: utilization, memory, power, energy, clock, throttling (NVML)"

    def __init__(
        self, library: Any = None, proc: Path = Path("/proc"), environment: Mapping[str, str] = os.environ
    ) -> None:
        self._library, self._proc, self._environment = library, proc, environment

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        nvml, handle = self._handle(device)
        if nvml is None:
            return ()
        foreign = not_of_the_trial(nvml, handle)
        every = (*present(_gauges(nvml, handle)), *self._others(nvml, handle, pid))
        return [gauge for gauge in every if gauge.metric not in foreign]

    def room(self, device: DeviceInfo) -> Room | None:
        """Return what an NVIDIA device has left; of a divided card, where the slice is not known, nothing is told."""
        nvml, handle = self._handle(device)
        if nvml is None or "device_memory_used_bytes" in not_of_the_trial(nvml, handle):
            return None
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except (nvml.NVMLError, AttributeError):  # not told to this user
            return None
        mode = library_gauge((nvml.NVMLError,), "mode", lambda: nvml.nvmlDeviceGetComputeMode(handle)).read()
        return Room(mode not in _ADMITS_ONE, int(memory.free), int(memory.total))

    def _handle(self, device: DeviceInfo | None) -> tuple[Any, Any]:
        """Return the library and its handle of an NVIDIA device, or (None, None)."""
        if device is None or device.kind != "cuda":
            return None, None
        try:
            nvml = self._library or import_module("pynvml")
        except ImportError:  # a machine without the package cannot ask
            return None, None
        try:
            nvml.nvmlInit()
            return nvml, _find(nvml, device, self._environment)
        except nvml.NVMLError:  # no driver, or it does not show this device to us
            return None, None

    def _others(self, nvml: Any, handle: Any, pid: int | None) -> Sequence[FunctionGauge]:
        if pid is None:
            return ()
        beside = OtherProcesses(pid, self._proc)

        def alive() -> list[int]:
            # Only what computes: a desktop's own drawing is always there.
            return [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]

        try:
            alive()
        except (nvml.NVMLError, AttributeError):  # not supported here
            return ()
        working = _Working(nvml, handle)
        errors = (nvml.NVMLError,)
        gauges = [library_gauge(errors, "device_other_processes", lambda: beside.among(alive()))]
        if working.supported:
            gauges.append(library_gauge(errors, "device_working_processes", lambda: working.read(beside, alive())))
        for gauge in gauges:
            gauge.between_windows = True  # 4.5 ms a call, under the driver's lock (flightlessmango/MangoHud#2104)
        return gauges


class _Working:
    """Processes that ran kernels since the last reading, by the driver's samples of each process.

    A notebook that holds a model and waits has a context on the device, and takes nothing from a trial. A driver that
    has never shown any process at work, the trial's own included, is not believed that nobody works.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle, self._last_us = nvml, handle, 0
        self._shows_work = False
        try:
            self._samples()
        except (nvml.NVMLError, AttributeError):  # slices, virtual devices, and devices before Maxwell tell nothing
            self.supported = False
        else:
            self.supported = True

    def read(self, beside: OtherProcesses, alive: Sequence[int]) -> float | None:
        """Return how many of the processes that are alive and not the trial's have worked since the last call.

        The samples lag: those of a trial that has just ended are told after its end, so it has to be alive.
        None where the driver has shown no process at work yet.
        """
        worked = {sample.pid for sample in self._samples() if sample.smUtil > 0}
        self._shows_work = self._shows_work or bool(worked)
        return beside.among(alive, worked) if self._shows_work else None

    def _samples(self) -> Sequence[Any]:
        """Return the samples since the last call; none where nothing ran."""
        try:
            samples: Sequence[Any] = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._last_us)
        except self._nvml.NVMLError_NotFound:
            return ()
        self._last_us = max((sample.timeStamp for sample in samples), default=self._last_us)
        return samples


def _gauges(nvml: Any, handle: Any) -> Sequence[FunctionGauge]:
    def first(metric: str, *reads: Callable[[], float | None]) -> FunctionGauge:
        """Return the gauge of the first of these that answers here."""
        gauges = [library_gauge((nvml.NVMLError,), metric, read) for read in reads]
        return next((gauge for gauge in gauges if gauge.read() is not None), gauges[-1])

    # The older name of the temperature goes with CUDA 14, as pynvml 13 says.
    events = lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    reasons = lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)  # before driver 535
    return (
        first("device_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0),
        first("device_memory_used_bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
        first(
            "device_temperature_c",
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU) * 1.0,
            lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU) * 1.0,
        ),
        first(
            "device_power_w",
            lambda: _instant_w(nvml, handle),
            lambda: nvml.nvmlDeviceGetPowerUsage(handle) * 1e-3,
        ),
        first("device_power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) * 1e-3 or None),
        Ticking(first("device_energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * 1e-3)),
        first("device_clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6),
        first("device_throttled", lambda: _held(events()), lambda: _held(reasons())),
        first("device_power_capped", lambda: _capped(events()), lambda: _capped(reasons())),
    )


def _instant_w(nvml: Any, handle: Any) -> float | None:
    field = nvml.nvmlDeviceGetFieldValues(handle, [_POWER_INSTANT])[0]
    if field.nvmlReturn != 0 or field.valueType not in _FIELD_OF_TYPE:
        return None
    return float(getattr(field.value, _FIELD_OF_TYPE[field.valueType])) * 1e-3


def _held(reasons: int) -> float:
    return 1.0 if reasons & _HELD_DOWN else 0.0


def _capped(reasons: int) -> float:
    return 1.0 if reasons & _HELD_DOWN == _POWER_CAP else 0.0


def _find(nvml: Any, device: DeviceInfo, environment: Mapping[str, str]) -> Any:
    for name in _spellings(device.uuid):
        try:
            return nvml.nvmlDeviceGetHandleByUUID(name)
        except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):  # the next spelling, then the bus
            continue
    if device.bus_id is not None:
        return nvml.nvmlDeviceGetHandleByPciBusId(device.bus_id)
    visible = [word.strip() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    name = visible[device.index] if device.index < len(visible) else str(device.index)
    return nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)


def _spellings(uuid: str | None) -> Sequence[str]:
    # torch writes the UUID of a slice (MIG) like that of a card.
    bare = (uuid or "").removeprefix("GPU-").removeprefix("MIG-")
    return (f"GPU-{bare}", f"MIG-{bare}") if bare else ()


PLUGIN: TelemetrySource = Nvml()
