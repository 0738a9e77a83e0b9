"""Hardware counters of the CPU without root: instructions, cycles, cache misses in user mode (perf_event_open(2)).

Linux lets a user count his own processes where /proc/sys/kernel/perf_event_paranoid is 2 or less, without the kernel's
share. The trial's process is counted and, from then on, every thread and process it starts (inherit); where the CPU has
fewer counters than were asked for, the kernel takes turns, and a count is scaled by the time it was counted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Sequence

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import FunctionGauge, present

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
        self._opening = opening or opened

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


def opened(number: int, pid: int) -> int:
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


PLUGIN: TelemetrySource = PerfEvent()
