"""Other programs on this machine: which ones use the CPU, and waiting until they leave it, for a bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.stats.disturbance import TOLERATED_CORES
from torchstone.execution.timing.clock import Clock, system_clock

LOOK_S = 0.2  # how long others are watched: 40 ticks of the kernel's clock on two cores
LONGEST_WAIT_S = 10.0  # before one trial
_BUSY_CORES = 0.5  # over LOOK_S: below that a daemon that wakes up looks like a neighbour
_NAMED = 2
_NAMED_CORES = TOLERATED_CORES / 2.0
_PROC = Path("/proc")


class ProcessTime(msgspec.Struct, frozen=True):
    """A process as it was seen: its name, its parent, and the CPU seconds that it and its ended children have used."""

    name: str
    parent: int
    cpu_s: float


Snapshot = Mapping[int, ProcessTime]
Program = tuple[str, float]  # its name, and the cores that it uses


def snapshot(proc: Path = _PROC) -> Snapshot:
    """Return every process of this machine by its id; none where there is no /proc. About 10 µs a process."""
    tick_s, found = 1.0 / os.sysconf("SC_CLK_TCK"), {}
    try:
        ids = [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208  half the cost
    except OSError:
        return {}
    for pid in ids:
        try:
            text = (proc / str(pid) / "stat").read_text(errors="replace")
        except OSError:  # it has ended, or is not shown to us
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        cpu_s = sum(int(field) for field in fields[11:15]) * tick_s
        found[pid] = ProcessTime(name, int(fields[1]), cpu_s)
    return found


def cores_of_others(before: Snapshot, after: Snapshot, elapsed_s: float) -> float:
    """Return how many cores programs other than this process and what it started have used between two snapshots."""
    spent_s = sum(used for _, used in _spent(before, after, os.getpid()))
    return spent_s / elapsed_s if elapsed_s > 0.0 else 0.0


def busiest(before: Snapshot, after: Snapshot, elapsed_s: float) -> tuple[Program, ...]:
    """Return the programs that used the most CPU between two snapshots, each with its cores, the busiest first.

    This process and all that it started are left out.
    """
    used: dict[str, float] = {}
    for name, spent_s in _spent(before, after, os.getpid()):
        used[name] = used.get(name, 0.0) + spent_s
    cores = [(name, round(spent_s / elapsed_s, 2)) for name, spent_s in used.items() if elapsed_s > 0.0]
    return tuple(sorted((one for one in cores if one[1] >= _NAMED_CORES), key=lambda one: -one[1])[:_NAMED])


def wait_for_quiet(
    longest_s: float,
    tell: Callable[[Sequence[Program]], None],
    clock: Clock = system_clock,
    sleep: Callable[[float], None] = time.sleep,
    look: Callable[[], Snapshot] = snapshot,
) -> float:
    """Wait until other programs use less than half a core, at most so long; return how long that took, in seconds.

    To be called while nothing of ours computes. `tell`: called once, with the busiest programs, where it has to wait.
    """
    began_s, told = clock(), False
    before, at_s = look(), clock()
    while before and clock() - began_s < longest_s:
        sleep(LOOK_S)
        after, now_s = look(), clock()
        found = busiest(before, after, now_s - at_s)
        if sum(cores for _, cores in found) < _BUSY_CORES:
            break
        if not told:
            tell(found)
            told = True
        before, at_s = after, now_s
    return clock() - began_s


def _spent(before: Snapshot, after: Snapshot, own: int) -> Iterator[tuple[str, float]]:
    """Yield the CPU seconds of each program but ours between two snapshots, by its name.

    What an ended process has used, all its life long, stands at its parent once that has waited for it: what was seen
    of it before is taken off there.
    """
    ours = _family(before, own) | _family(after, own)
    seen_s: dict[int, float] = {}
    for pid, process in before.items():
        if pid not in after:
            seen_s[process.parent] = seen_s.get(process.parent, 0.0) + process.cpu_s
    for pid, process in after.items():
        if pid not in ours:
            used_s = process.cpu_s - (before[pid].cpu_s if pid in before else 0.0)
            yield process.name, max(0.0, used_s - seen_s.get(pid, 0.0))


def _family(processes: Snapshot, leader: int) -> set[int]:
    found, grown = {leader}, True
    while grown:
        more = {pid for pid, process in processes.items() if process.parent in found} - found
        grown = bool(more)
        found |= more
    return found
