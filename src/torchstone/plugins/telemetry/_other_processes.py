"""How many of the processes that a driver lists are not of the trial: in a container, the ids may be the host's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.plugins.telemetry._descendants import Descendants

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO: inside any other, a driver's pids are not ours


class OtherProcesses:
    """Those beside a process and all that it started."""

    def __init__(self, pid: int, proc: Path) -> None:
        self._pid, self._family, self._inside = pid, Descendants(pid, proc), not _first_namespace(proc)

    def among(self, pids: Sequence[int]) -> float | None:
        """Return how many of these are not of the trial, or None: what the driver tells is not of this trial.

        Inside a container that is so where not even the trial is in the list: it has the host's pids, or none at all.
        """
        ours = [pid for pid in pids if pid == self._pid or self._family.has(pid)]
        return None if self._inside and not ours else float(len(pids) - len(ours))


def _first_namespace(proc: Path) -> bool:
    """Say whether this process is in the namespace of process ids that the drivers count in."""
    try:
        return (proc / "self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:  # Windows has no such thing, and no containers that hide pids from a driver
        return True
