"""Logical cores as text, as the kernel and taskset write them (`0-3,8`), and the words for the cores of a trial."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from collections.abc import Iterable

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
