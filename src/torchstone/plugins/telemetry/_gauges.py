"""What the sources share: a gauge made of a function, several gauges on one reading, files kept open."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from torchstone.plugins.machine_protocols import Gauge


class Reading(Gauge):
    """A Gauge that calls a function. The function returns None where it cannot tell just now."""

    __slots__ = ("_read", "between_windows", "cumulative", "evidence", "metric")

    def __init__(
        self, metric: str, read: Callable[[], float | None], cumulative: bool = False, between_windows: bool = False,
        evidence: bool = False,
    ) -> None:  # fmt: skip
        self.metric = metric
        self.cumulative = cumulative
        self.between_windows = between_windows
        self.evidence = evidence
        self._read = read

    def read(self) -> float | None:
        """Return the present value in the metric's unit."""
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

    def gauge(self, metric: str, cumulative: bool = False, evidence: bool = False) -> Reading:
        """Return the gauge of one part of the reading."""
        return Reading(metric, lambda: self.take(metric), cumulative, evidence=evidence)


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


def present(gauges: Sequence[Reading]) -> Sequence[Reading]:
    """Return the gauges that answer now; what cannot answer at the beginning is absent."""
    return [gauge for gauge in gauges if gauge.read() is not None]


def file_gauge(metric: str, path: Path, scale: float = 1.0) -> Reading:
    """Return a gauge of one number in one file."""
    file = KeptOpen(path)

    def read() -> float | None:
        value = file.number()
        return None if value is None else value * scale

    return Reading(metric, read)


def first_line(path: Path) -> str:
    """Return the first line of a small file, empty where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").partition("\n")[0].strip()
    except OSError:  # absent is a normal answer in /sys
        return ""
