"""One measurement at a time on one device: a lock file for each card and each core, shared by all users of a computer.

A process that may use some cores only (a job of a cluster, taskset) waits for no one on others.

The kernel frees a lock when its process ends, however it ends. The folder is open to all, like /tmp: no name in it is
believed (links are not followed), and what a file says is only shown.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import math
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, unknown
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.units import duration_s

WHEN_BUSY = ("wait", "refuse", "share")
_MOST_BYTES = 4096
_LOOKS_EVERY_S = 0.2


def _say_nothing(_text: str) -> None:
    """Keep it to oneself."""


class WhenBusy(msgspec.Struct, frozen=True):
    """What to do while another torchstone measures on the device; `say` tells the user, who may be waiting.

    "wait" sleeps until the device is free, "refuse" raises MissingError, "share" goes on beside the other. Who waited
    `limit_s` in vain is refused.
    """

    word: str = "share"
    say: Callable[[str], None] = _say_nothing
    limit_s: float = math.inf

    @classmethod
    def read(cls, word: str, say: Callable[[str], None]) -> WhenBusy:
        """Return what the user's word means: `wait:10m` is a limit. Raises UsageError naming the words there are."""
        kind, colon, limit = word.partition(":")
        if kind not in WHEN_BUSY or (colon and kind != "wait"):
            raise unknown("way to deal with a busy device", word, (*WHEN_BUSY, "wait:10m"))
        return cls(kind, say, duration_s(limit, "--when-busy wait") if colon else math.inf)


SHARE = WhenBusy()


class Holder(msgspec.Struct, frozen=True):
    """Who holds a device, as it says itself."""

    run_id: str
    pid: int
    started: str

    def __str__(self) -> str:
        words = f"run {self.run_id} (pid {self.pid}, since {self.started})"
        return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)[:200]


class BusyError(MissingError):
    """A device is busy, as `seen` says."""

    def __init__(self, seen: str) -> None:
        super().__init__(f"{seen}; --when-busy wait waits for it")
        self.seen = seen


@contextlib.contextmanager
def held(placements: Sequence[Placement], machine: Machine, run_id: str, busy: WhenBusy) -> Iterator[None]:
    """Hold the devices of `placements` for a run. Raises MissingError where one is busy and that shall be refused."""
    names = {name: placement for placement in placements for name in _names(placement, machine)}
    until_s, told = time.monotonic() + busy.limit_s, set[str]()
    say = busy.say

    def say_once(text: str) -> None:
        if text not in told:
            told.add(text)
            say(text)

    busy = msgspec.structs.replace(busy, say=say_once)
    with contextlib.ExitStack() as stack:
        for name in sorted(names):  # all in one order: two that want two devices never wait for each other
            descriptor = _open_lock(name, busy.say)
            if descriptor is not None:
                stack.callback(os.close, descriptor)
                _lock(descriptor, str(names[name]), run_id, busy, until_s)
        yield


def _lock(descriptor: int, device: str, run_id: str, busy: WhenBusy, until_s: float) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if busy.word == "share":
            return
        holder = _holder(descriptor) or "another torchstone"
        if busy.word == "refuse":
            raise BusyError(f"{device} is busy: {holder} measures on it") from None
        busy.say(f"waiting for {device}: {holder} is measuring on it (--when-busy share does not wait)")
        if not _lock_in_time(descriptor, until_s):
            raise MissingError(f"{device} is busy for more than {busy.limit_s:g} s: {holder} measures on it") from None
    except OSError:  # a file system without locks
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only nobody can read whose it is
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(Holder(run_id, os.getpid(), now)), 0)


def _lock_in_time(descriptor: int, until_s: float) -> bool:
    """Wait for a lock; say whether it came in time."""
    if math.isinf(until_s):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= until_s:
            return False
        time.sleep(_LOOKS_EVERY_S)


def _holder(descriptor: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, _MOST_BYTES, 0), type=Holder)
    except (OSError, msgspec.MsgspecError, ValueError):  # it has locked the file and not yet written, or is a stranger
        return None


def _names(placement: Placement, machine: Machine) -> Iterator[str]:
    """Yield the names of the files: which cards its ranks use, whatever index these have here; which cores on a CPU."""
    if placement.device == "cpu":  # a folder of temporary files may be shared by several computers
        which: list[object] = [f"{machine.host.hostname[:100]}-{core}" for core in _cores()]
    else:
        indices = range(placement.index, placement.index + placement.count)
        found = [(index, machine.device(placement.device, index)) for index in indices]
        which = [index if card is None else card.uuid or card.bus_id or card.index for index, card in found]
    for one in which:
        yield re.sub(r"[^A-Za-z0-9-]+", "_", f"{placement.device}-{one}")[:120]


def _cores() -> Sequence[int]:
    """Return the logical cores that this process may use; where the system does not tell, all of them are one."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else (0,)


def _open_lock(name: str, say: Callable[[str], None]) -> int | None:
    """Return a descriptor of the lock file, or None where there can be none (`say` is told why)."""
    path = Path(tempfile.gettempdir()) / "torchstone-devices"
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            path.chmod(0o1777)  # everybody's, and nobody takes away another one's: a umask would have narrowed it
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return _file(f"{name}.lock", folder)
        finally:
            os.close(folder)
    except OSError as fault:
        say(f"no lock on the device ({path}: {fault.strerror}): another torchstone may measure at the same time")
        return None


def _file(name: str, folder: int) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Without O_CREAT first: kernels refuse it for another user's file in a folder like this one.
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        try:
            descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
            os.fchmod(descriptor, 0o666)
        except FileExistsError:  # another torchstone was first
            descriptor = os.open(name, flags, dir_fd=folder)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(0, "is not a lock file")
    return descriptor
