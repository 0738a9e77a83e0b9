"""What the sources share: a gauge made of a function, several gauges on one reading, files kept open."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from time import monotonic

from torchstone.plugins.machine_protocols import Gauge

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO: inside any other, a driver's pids are not ours


class Descendants:
    """A process and all it started, followed from reading to reading. Only pids not seen before are looked into."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid, self._proc = pid, proc
        self._members: dict[int, KeptOpen] = {pid: self._stat(pid)}
        self._strangers: set[int] = set()

    def stats(self) -> list[list[bytes]]:
        """Return of each living member the fields of its `stat` from the third (state) on; none once it has ended."""
        self._adopt()
        told = {pid: file.read() for pid, file in self._members.items()}
        self._members = {pid: file for pid, file in self._members.items() if told[pid]}
        return [_fields(text) for text in told.values() if text] if told.get(self._pid) else []

    def has(self, pid: int) -> bool:
        """Say whether that process belongs to the trial."""
        self._adopt()
        return pid in self._members

    def _adopt(self) -> None:
        try:
            listed = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208  half the cost
        except OSError:  # no /proc: the caller has psutil
            return
        self._strangers &= listed
        parents = {pid: self._parent(pid) for pid in listed - self._strangers - self._members.keys()}
        grown = True
        while grown:  # a grandchild may have a lower pid than its parent
            children = [pid for pid, parent in parents.items() if parent in self._members]
            for pid in children:
                self._members[pid] = self._stat(pid)
                del parents[pid]
            grown = bool(children)
        self._strangers |= parents.keys()

    def _parent(self, pid: int) -> int | None:
        text = self._stat(pid).read()
        return int(_fields(text)[1]) if text else None

    def _stat(self, pid: int) -> KeptOpen:
        return KeptOpen(self._proc / str(pid) / "stat", 1024)


class CoreWaits:
    """How long the threads of one process were ready to run and had no core (Documentation/scheduler/sched-stats)."""

    def __init__(self, pid: int, proc: Path) -> None:
        self._tasks = proc / str(pid) / "task"
        self._files: dict[str, KeptOpen] = {}
        self._waited_ns: dict[str, int] = {}

    def total_s(self) -> float | None:
        """Return the sum over its threads; None where the kernel does not count it."""
        try:
            threads = os.listdir(self._tasks)  # noqa: PTH208  half the cost
        except OSError:  # the process has ended, or this is no Linux
            threads = []
        for thread in threads:
            if thread not in self._files:
                self._files[thread] = KeptOpen(self._tasks / thread / "schedstat", 128)
            fields = (self._files[thread].read() or b"").split()
            if len(fields) == 3:  # on a core, waiting for one (both ns), times on one
                self._waited_ns[thread] = int(fields[1])
        return sum(self._waited_ns.values()) * 1e-9 if self._waited_ns else None


def _fields(stat: bytes) -> list[bytes]:
    return stat[stat.rindex(b")") + 2 :].split()  # the second field is a name, and may hold spaces and brackets


class OtherProcesses:
    """Those beside a process and all that it started."""

    def __init__(self, pid: int, proc: Path) -> None:
        self._pid, self._family, self._inside = pid, Descendants(pid, proc), not _first_namespace(proc)

    def among(self, pids: Sequence[int], which: Collection[int] | None = None) -> float | None:
        """Return how many of these (of `which` of them) are not the trial's; None: the driver tells other pids.

        Inside a container that is so where not even the trial is in the list: it has the host's pids, or none at all.
        """
        others = [pid for pid in pids if pid != self._pid and not self._family.has(pid)]
        if self._inside and len(others) == len(pids):
            return None
        return float(sum(which is None or pid in which for pid in others))


def _first_namespace(proc: Path) -> bool:
    """Say whether this process is in the namespace of process ids that the drivers count in."""
    try:
        return (proc / "self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:  # Windows has no such thing, and no containers that hide pids from a driver
        return True


class FunctionGauge(Gauge):
    """A Gauge that calls a function. The function returns None where it cannot tell just now."""

    __slots__ = ("_read", "between_windows", "cumulative", "evidence", "metric")

    def __init__(
        self,
        metric: str,
        read: Callable[[], float | None],
        cumulative: bool = False,
        between_windows: bool = False,
        evidence: bool = False,
    ) -> None:
        self.metric = metric
        self.cumulative = cumulative
        self.between_windows = between_windows
        self.evidence = evidence
        self._read = read

    def read(self) -> float | None:
        return self._read()


class Shared:
    """One reading shared by several gauges: taken again when a gauge asks a second time, or after 50 ms."""

    _KEPT_S = 0.05

    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read
        self._values: Mapping[str, float] = {}
        self._given: set[str] = set()
        self._stale_s = 0.0

    def take(self, name: str) -> float | None:
        """Return that part of the present reading."""
        now_s = monotonic()
        if name in self._given or now_s >= self._stale_s:
            self._values = self._read()
            self._given.clear()
            self._stale_s = now_s + self._KEPT_S
        self._given.add(name)
        return self._values.get(name)

    def gauge(self, metric: str, cumulative: bool = False, evidence: bool = False) -> FunctionGauge:
        """Return the gauge of one part of the reading."""
        return FunctionGauge(metric, lambda: self.take(metric), cumulative, evidence=evidence)


class KeptOpen:
    """A file of /proc or /sys, opened once: reading it again from its beginning costs one system call.

    What names a process by its pid cannot be taken over by another one: the open file of a dead process fails.
    """

    __slots__ = ("_descriptor", "_most_bytes")

    def __init__(self, path: Path | str, most_bytes: int = 4096) -> None:
        self._descriptor: int | None = None
        self._most_bytes = most_bytes
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:  # not there, or root's alone: `read` answers None
            return

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound beforehand: where the interpreter ends while somebody still has this, `os` is gone already.
        if self._descriptor is not None:
            close(self._descriptor)

    def read(self) -> bytes | None:
        """Return the present content, or None where there is none (any more)."""
        if self._descriptor is None:
            return None
        try:
            return os.pread(self._descriptor, self._most_bytes, 0)
        except OSError:  # the process has ended, the device is asleep or gone
            return None

    def number(self) -> int | None:
        """Return the present content as a whole number, or None."""
        text = self.read()
        try:
            return None if text is None else int(text)
        except ValueError:  # "N/A", "<unknown>", nothing
            return None


def present(gauges: Sequence[FunctionGauge]) -> Sequence[FunctionGauge]:
    """Return the gauges that answer now; what cannot answer at the beginning is absent."""
    return [gauge for gauge in gauges if gauge.read() is not None]


def file_gauge(metric: str, path: Path, scale: float = 1.0, cumulative: bool = False) -> FunctionGauge:
    """Return a gauge of one number in one file."""
    file = KeptOpen(path)

    def read() -> float | None:
        value = file.number()
        return None if value is None else value * scale

    return FunctionGauge(metric, read, cumulative)


def library_gauge(
    errors: tuple[type[Exception], ...], metric: str, read: Callable[[], float | None], cumulative: bool = False
) -> FunctionGauge:
    """Return a gauge that asks a vendor's library.

    `errors`: what the library raises where the device or the driver does not support it, or this user may not ask. An
    AttributeError or KeyError is of a version that calls it otherwise. Then this gauge is absent, the others stay.
    """
    absent: tuple[type[Exception], ...] = (*errors, AttributeError, KeyError)

    def answer() -> float | None:
        try:
            return read()
        except absent:
            return None

    return FunctionGauge(metric, answer, cumulative)


def card_folder(drm: Path, vendor: str, bus_id: str | None) -> Path | None:
    """Return the folder of a vendor's card in /sys/class/drm.

    None without one, and where there are several and no bus id: the order of /sys is not that of torch.
    """
    cards = [card for card in sorted(drm.glob("card[0-9]*")) if first_line(card / "device/vendor") == vendor]
    cards = [card for card in cards if "-" not in card.name]  # card0-HDMI-A-1 is a connector
    if bus_id is not None:
        cards = [card for card in cards if same_bus(_slot(card), bus_id)]
    return cards[0] if len(cards) == 1 else None


def _slot(card: Path) -> str:
    try:
        lines = (card / "device/uevent").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # gone while we looked
        return ""
    return next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), "")


def same_bus(one: str, other: str) -> bool:
    """Say whether two PCI addresses are one."""
    return one.lower()[-12:] == other.lower()[-12:]  # NVIDIA and some tools write the domain with eight digits


def first_line(path: Path) -> str:
    """Return the first line of a small file, empty where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").partition("\n")[0].strip()
    except OSError:  # absent is a normal answer in /sys
        return ""
