"""Logical cores as text, as the kernel and taskset write them (`0-3,8`), and the words for the cores of a trial."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from torchstone.core.errors import UsageError

LIST = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*")
NODE = re.compile(r"node:(\d{1,4})")
NEAR_DEVICE = "device"
_MOST_CORES = 65_536


def cores_of(text: str) -> tuple[int, ...]:
    """Return the cores that `0-3,8` names, in order. Raises UsageError for what is no such list."""
    if not LIST.fullmatch(text):
        raise UsageError(f"{text!r} is no list of logical cores; write 0-3,8")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= _MOST_CORES:
            raise UsageError(f"{text!r}: there is no core {last or first}")
        found.update(range(int(first), int(last or first) + 1))
    if not found:
        raise UsageError(f"{text!r} names no core: the first of a range is the smaller")
    return tuple(sorted(found))


def cores_text(cores: Iterable[int]) -> str:
    """Return cores as the kernel writes them: 0, 1, 2, 8 → "0-2,8"."""
    parts: list[list[int]] = []
    for core in sorted(set(cores)):
        if parts and core == parts[-1][1] + 1:
            parts[-1][1] = core
        else:
            parts.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def affinity_word(value: object) -> str:
    """Return a word for the cores of a trial as it is kept. Raises UsageError for what is none."""
    word = str(value).replace(" ", "")
    if word == NEAR_DEVICE or NODE.fullmatch(word):
        return word
    if not LIST.fullmatch(word):
        raise UsageError(f"{value!r} is not device, node:N or a list of logical cores such as 0-3,8")
    return cores_text(cores_of(word))


def end_with(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent ends, or end it now where that has ended already.

    `parent`: the pid of the process that forked this one, which that asked for before the fork: whoever is killed
    between the fork and this call is seen by it alone. Linux only (prctl(2), PR_SET_PDEATHSIG); nothing elsewhere.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # torch itself follows these: the user has chosen


def worthwhile(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> tuple[int, str] | None:
    """Return how many threads, and what that number is; None where the user has said it, or nobody can tell.

    Two hyperthreads share the units that do the arithmetic, and the barrier at the end of every operator waits for
    the slowest: one thread a core. A control group's limit counts like cores: torch does not look at it, and
    threads beyond it are stopped together in the middle of an operator. Only Linux tells which cores are ours.
    """
    if any(environment.get(name) for name in _THREAD_VARIABLES) or not hasattr(os, "sched_getaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    cores = _cores(root, allowed)
    if cores is None:
        return None
    quota = _quota(root)
    if quota is not None and math.ceil(quota) < cores:
        return math.ceil(quota), f"what the control group allows, {quota:g} of {cores} cores"
    return cores, f"the physical cores of {len(allowed)} logical ones" if cores < len(allowed) else "one a core"


def _cores(root: Path, allowed: Iterable[int]) -> int | None:
    folder = root / "sys/devices/system/cpu"
    siblings = {_line(folder / f"cpu{number}/topology/thread_siblings_list") for number in allowed}
    return None if None in siblings else len(siblings)


def _quota(root: Path) -> float | None:
    """Return how many CPUs the control groups of this process leave it, the tightest of them; None: no limit."""
    try:
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # a sandbox without /proc
        return None
    limits: list[float] = []
    for _, controllers, path in (group.split(":", 2) for group in groups):
        if controllers and "cpu" not in controllers.split(","):
            continue
        own = PurePosixPath(path.lstrip("/"))
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")  # a controller's name: version 1
        limits += (limit for part in (own, *own.parents) if (limit := _limit(top / part)) is not None)
    return min(limits, default=None)


def _limit(folder: Path) -> float | None:
    """Return the CPUs that one control group allows: quota by period, in µs; None: it has no limit."""
    told = (_line(folder / "cpu.max") or "").split()
    if len(told) != 2:  # version 1 has a file for each
        told = [_line(folder / f"cpu.cfs_{what}_us") or "" for what in ("quota", "period")]
    quota, period = told
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").partition("\n")[0].strip() or None
    except OSError:  # another kernel, or not ours to read
        return None
