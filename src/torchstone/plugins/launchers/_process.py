"""A trial as a process: its environment, a new interpreter for it, and the controller's end of its pipe."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.schema.codec import Malformed, decode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import ASK_WHERE, Event, Request, Stack

_CHUNK_BYTES = 1 << 20
# glibc gives large buffers back to the kernel and faults them in again at every step: about 900 page faults a step
# of a small CNN, which doubles the spread between processes. With these it keeps what it was given.
_FIXED_HEAP = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
# Which small pages a process happens to get decides what shares a cache set, and how often addresses are looked up: of
# a network of 256 MB pairs spread by 7.7 %, and with huge ones by 2.3 %, for which glibc 2.35 asks where it is told to.
_HUGE_PAGES = "glibc.malloc.hugetlb=1"
# A team of threads that slept while another process computed wakes up elsewhere; bound, each to a logical core,
# it cannot. `spread` takes another physical core for each thread while there is one.
_PINNED = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "threads"}
_BOUND_BY_USER = (*_PINNED, "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def environment(heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> Mapping[str, str]:
    """Return the environment of a trial: the user's own, with the heap setting where glibc is there to read it.

    In a folder of its own (a work tree of another revision) its modules go before those that are installed. Where the
    user binds threads already, `pin_threads` changes nothing.
    """
    own = dict(os.environ)
    if folder is not None:
        sources = [str(path) for path in (folder, folder / "src") if path.is_dir()]
        own["PYTHONPATH"] = os.pathsep.join([*sources, *filter(None, [own.get("PYTHONPATH")])])
    if heap in ("fixed", "huge") and sys.platform == "linux":
        own.update(_FIXED_HEAP)
    if heap == "huge" and sys.platform == "linux":
        own["GLIBC_TUNABLES"] = ":".join(filter(None, [own.get("GLIBC_TUNABLES"), _HUGE_PAGES]))
    if pin_threads and sys.platform == "linux" and not any(own.get(name) for name in _BOUND_BY_USER):
        own.update(_PINNED)
    return own


def describe_status(status: int) -> str | None:
    """Return what a wait status says was wrong: the signal by name, the exit code, or None."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"killed by {name}"
    code = os.waitstatus_to_exitcode(status)
    return f"exited with code {code}" if code else None


def line_to_a_trial() -> tuple[int, int]:
    """Return two descriptors that are connected both ways: ours, and the one that a trial is given."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


class PipedTrial:
    """A LiveTrial (machine_protocols.py) on one of `line_to_a_trial`. `wait` gives its exit status."""

    def __init__(self, pid: int, descriptor: int, wait: Callable[[], int], facts: Facts | None = None) -> None:
        self.pid = pid
        self.facts = facts or Facts()
        self._descriptor = descriptor
        self._wait = wait
        self._rest = b""
        self._status: int | None = None

    def fileno(self) -> int:
        """Return our end of the line."""
        return self._descriptor

    def events(self) -> Sequence[Event] | None:
        """Return the events of one read; None at the end. A torn last line of a killed trial is dropped.

        What is no event was written by the interpreter itself, as its last words: a Stack.
        """
        try:
            data = os.read(self._descriptor, _CHUNK_BYTES)
        except ConnectionResetError:  # it was killed with a word from us unread
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[Event] = []
        words: list[str] = []
        for line in filter(None, lines):
            try:
                events.append(decode(line, Event))
            except Malformed:
                words.append(line.decode(errors="replace"))
        return [*events, Stack(tuple(words))] if words else events

    def ask_where(self) -> None:
        """Ask the process for its Stack. One that cannot answer yet, as it still imports, ends."""
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(self.pid, signal.Signals[ASK_WHERE])

    def kill(self) -> None:
        """End the trial's whole session: its loader processes and compilers, too."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # not yet a session of its own, or gone already
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def ending(self) -> str | None:
        """Wait for the end; return what was wrong with it, or None. Nothing that it started outlives it."""
        if self._status is None:
            self.kill()  # a status that is there already stays; a process that closed its pipe and lives on must not
            self._status = self._wait()
            os.close(self._descriptor)
        return describe_status(self._status)


def started(
    request: Request, environment: Mapping[str, str], folder: Path | None, facts: Facts | None = None
) -> PipedTrial:
    """Start a new interpreter for a request: 5 to 8 s to import, nothing inherited. `facts`: how it was started."""
    ours, theirs = line_to_a_trial()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchstone.execution.worker", "once", str(theirs)],
        stdin=subprocess.PIPE,
        pass_fds=(theirs,),
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    os.close(theirs)
    if process.stdin is not None:
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
    return PipedTrial(process.pid, ours, lambda: _status_of(process), facts)


def _status_of(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return -code if code < 0 else code << 8  # back to the form of a wait status
