"""Memory as the kernel reports it: what a trial may still allocate, and the number of OOM kills."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 where there is no limit, v2 the word "max"


def oom_kills(root: Path = Path("/")) -> tuple[int, ...]:
    """Return the counters of OOM kills that this process may read: of its control group, and of the whole host.

    cgroup v2: `oom_kill` of memory.events; v1: of memory.oom_control; /proc/vmstat. A control group's counter rises in
    a host-wide shortage, too, if the victim was its own. Empty where the kernel counts nothing (not Linux).
    """
    files = [folder / name for folder, name, _, _ in itertools.islice(_groups(root), 1)]
    counts = [_pairs(path).get("oom_kill") for path in (*files, root / "proc/vmstat")]
    return tuple(count for count in counts if count is not None)


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return what can be had without another process giving up anything: free, reclaimable and swap; None if unknown.

    The least of the host's MemAvailable + SwapFree and, for each control group that this process is in, limit less
    use, where pages of files do not count as used: the kernel drops them first.
    """
    meminfo = _pairs(root / "proc/meminfo")
    if "MemAvailable:" not in meminfo:
        return None
    swap = meminfo.get("SwapFree:", 0) * 1024
    rooms = [meminfo["MemAvailable:"] * 1024 + swap]
    for folder, _, limit_name, use_name in _groups(root):
        limit, use = _number(folder / limit_name), _number(folder / use_name)
        if limit is not None and use is not None and limit < _UNLIMITED:
            stat = _pairs(folder / "memory.stat")
            files = stat.get("file", stat.get("total_cache", 0)) - stat.get("shmem", stat.get("total_shmem", 0))
            rooms.append(max(0, limit - use + max(0, files)) + swap)
    return min(rooms)


def _groups(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Yield the folder of each memory control group this process is in, inner ones first, and its files' names.

    In a container the path may be the host's, and the folder that is mounted is the group itself: both are tried.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, names = root / "sys/fs/cgroup", ("memory.events", "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.oom_control", "memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        inner = mount / path.lstrip("/")
        for folder in dict.fromkeys((inner, *inner.parents)):
            if folder.is_relative_to(mount) and (folder / names[2]).exists():
                yield folder, *names


def _pairs(path: Path) -> Mapping[str, int]:
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:  # another kernel, or not ours to read
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
