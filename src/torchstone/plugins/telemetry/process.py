"""Memory and CPU time of the trial's process and all it started."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import CoreWaits, Descendants, FunctionGauge, Shared, present


class Process(TelemetrySource):
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


PLUGIN: TelemetrySource = Process()
