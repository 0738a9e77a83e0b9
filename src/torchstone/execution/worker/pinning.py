"""Pins OpenMP threads to one logical core each; other threads of a trial stay unpinned.

OpenMP binds its threads where the environment asks for it (plugins/launchers/_process.py), and the main thread as soon
as torch is imported: to one core, which whatever is started from it inherits, a loader's processes among them. So a
trial is free while it builds, is bound again before it warms up, and frees its children.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from torchstone.core.schema.facts import Facts

_TASKS = Path("/proc/self/task")
_CAN = hasattr(os, "sched_getaffinity") and _TASKS.is_dir()
# Read before torch is imported: the cores of this process, before a library binds its main thread.
OURS = frozenset(os.sched_getaffinity(0)) if _CAN else frozenset[int]()


class Pinning:
    """The bindings of this process. `wanted`: the Procedure asks for threads that stay where they are.

    Where no library has bound the main thread (no OpenMP, another system), nothing is bound, and the facts say so.
    """

    def __init__(self, *, wanted: bool) -> None:
        """Free the main thread until `bind`."""
        self._wanted = wanted and _CAN
        mine = frozenset(os.sched_getaffinity(0)) if self._wanted else OURS
        self._main = mine if len(mine) == 1 and mine != OURS else None
        if self._main is not None:
            os.sched_setaffinity(0, OURS)
            os.register_at_fork(after_in_child=_free_this)

    @property
    def bound(self) -> bool:
        """Whether threads are bound to a core each."""
        return self._main is not None

    def bind(self) -> None:
        """Bind the main thread where OpenMP had it: the next to compute is OpenMP's team, in which it is the first."""
        if self._main is not None:
            os.sched_setaffinity(0, self._main)

    def free(self, pids: Iterable[int]) -> None:
        """Let these processes use every core that is ours: those that were not forked (spawned ones) inherit a core."""
        for pid in pids if self._main is not None else ():
            _free(Path(f"/proc/{pid}/task"))

    def facts(self) -> Facts:
        """Return how many logical cores have a thread of this process bound to them alone; empty if none was to be."""
        if not self._wanted:
            return Facts()
        masks = [os.sched_getaffinity(int(task.name)) for task in _TASKS.iterdir()]
        return Facts(threads_pinned=len({next(iter(m)) for m in masks if len(m) == 1}) if self.bound else 0)


class Seats:
    """Moves the threads of this process to other cores, turn by turn; those that were bound apart stay apart.

    `bound`: each to one core; else all of them share what they are given.
    """

    def __init__(self, *, bound: bool) -> None:
        self._bound = bound
        self._seat: dict[int, int | None] = {}  # thread → which of the cores it is given; None: all of them
        self._places: dict[int, int] = {}  # core that OpenMP bound a thread to → its seat

    def move(self, cores: Sequence[int]) -> None:
        """Move every thread of this process to these logical cores, those of torch's pool too."""
        for thread in sorted(int(task.name) for task in _TASKS.iterdir()):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                seat = self._seat_of(thread)
                os.sched_setaffinity(thread, cores if seat is None else {cores[seat % len(cores)]})

    def _seat_of(self, thread: int) -> int | None:
        if thread not in self._seat:
            mask = os.sched_getaffinity(thread) if self._bound else ()
            alone = next(iter(mask)) if len(mask) == 1 else None
            self._seat[thread] = None if alone is None else self._places.setdefault(alone, len(self._places))
        return self._seat[thread]


def _free_this() -> None:
    """Free a process that was just forked, and the threads that libraries (OpenBLAS) start anew in it."""
    _free(_TASKS)


def _free(tasks: Path) -> None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for task in tasks.iterdir():
            os.sched_setaffinity(int(task.name), OURS)
