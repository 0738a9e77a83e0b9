"""Whether the process ids that a driver tells are those that are seen here: in a container they may be the host's."""

from __future__ import annotations

from pathlib import Path

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's PROC_PID_INIT_INO: inside any other, a driver's pids are not ours


def first_namespace(proc: Path) -> bool:
    """Say whether this process is in the namespace of process ids that the drivers count in."""
    try:
        return (proc / "self/ns/pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:  # Windows has no such thing, and no containers that hide pids from a driver
        return True
