"""One measurement at a time on one device: a lock file for each device, shared by all users of this computer.

The kernel frees a lock when its process ends, however it ends. The folder is open to all, like /tmp: no name in it is
believed (links are not followed), and what a file says is only shown.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError, unknown
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine

WHEN_BUSY = ("wait", "refuse", "share")
_MOST_BYTES = 4096


def _say_nothing(_text: str) -> None:
    """Keep it to oneself."""


class WhenBusy(msgspec.Struct, frozen=True):
    """What to do while another torchstone measures on the device; `say` tells the user, who may be waiting.

    "wait" sleeps until the device is free, "refuse" raises MissingError, "share" goes on beside the other.
    """

    word: str = "share"
    say: Callable[[str], None] = _say_nothing

    @classmethod
    def read(cls, word: str, say: Callable[[str], None]) -> WhenBusy:
        """Return what the user's word means. Raises UsageError naming the words there are."""
        if word not in WHEN_BUSY:
            raise unknown("way to deal with a busy device", word, WHEN_BUSY)
        return cls(word, say)


SHARE = WhenBusy()


class Holder(msgspec.Struct, frozen=True):
    """Who holds a device, as it says itself."""

    run_id: str
    pid: int
    started: str

    def __str__(self) -> str:
        words = f"run {self.run_id} (pid {self.pid}, since {self.started})"
        return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)[:200]


@contextlib.contextmanager
def held(placements: Sequence[Placement], machine: Machine, run_id: str, busy: WhenBusy) -> Iterator[None]:
    """Hold the devices of `placements` for a run. Raises MissingError where one is busy and that shall be refused."""
    names = {_name(placement, machine): placement for placement in placements}
    with contextlib.ExitStack() as stack:
        for name in sorted(names):  # all in one order: two that want two devices never wait for each other
            descriptor = _opened(name, busy.say)
            if descriptor is not None:
                stack.callback(os.close, descriptor)
                _lock(descriptor, str(names[name]), run_id, busy)
        yield


def _lock(descriptor: int, device: str, run_id: str, busy: WhenBusy) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if busy.word == "share":
            return
        holder = _holder(descriptor) or "another torchstone"
        if busy.word == "refuse":
            raise MissingError(f"{device} is busy: {holder} measures on it; --when-busy wait waits for it") from None
        busy.say(f"waiting for {device}: {holder} is measuring on it (--when-busy share does not wait)")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):  # a full disk: the lock holds, only nobody can read whose it is
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(Holder(run_id, os.getpid(), now)), 0)


def _holder(descriptor: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, _MOST_BYTES, 0), type=Holder)
    except (OSError, msgspec.MsgspecError, ValueError):  # it has locked the file and not yet written, or is a stranger
        return None


def _name(placement: Placement, machine: Machine) -> str:
    """Return the file's name: which card it is, whatever index it has in this process."""
    found = machine.device(placement.device, placement.index)
    if placement.device == "cpu":
        which: object = machine.host.hostname  # a folder of temporary files may be shared by several computers
    else:
        which = placement.index if found is None else found.uuid or found.bus_id or found.index
    return re.sub(r"[^A-Za-z0-9-]+", "_", f"{placement.device}-{which}")[:120]


def _opened(name: str, say: Callable[[str], None]) -> int | None:
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
