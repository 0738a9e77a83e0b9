"""Who the ranks of a trial are, how each of them ended, and which was the first that did not end well.

When a rank dies, the others fail soon after, as their peer is gone: only the first death says what happened. The order
and the statuses are the kernel's (pidfd_open(2), waitid(2) with WNOWAIT, which leaves the process to its parent).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Mapping, Sequence

from torchstone.core.schema.codec import Malformed, decode, encode
from torchstone.core.schema.message import Ended, Event
from torchstone.core.schema.trial import Outcome, Status

_CHUNK_BYTES = 1 << 16
_PID = b"pid "


class Roll:
    """One pipe for each rank of this node, read by a thread of its own. Made before the ranks are forked.

    `first`: the number of the first of them.
    """

    def __init__(self, size: int, first: int = 0) -> None:
        self._first = first
        self._pipes = [os.pipe() for _ in range(size)]
        self._wake, self._waker = os.pipe()
        self._rest: dict[int, bytes] = {}
        self._ends: dict[int, Ended] = {}
        self._deaths: list[tuple[int, str | None]] = []
        self.pids: dict[int, int] = {}
        self._watched: dict[int, int] = {}  # pidfd → rank
        self._thread = threading.Thread(target=self._listen, name="ranks", daemon=True)
        self._thread.start()

    def descriptor(self, rank: int) -> int:
        """Return the end of the pipe that a rank of this node, the first being 0, writes to."""
        return self._pipes[rank][1]

    def close(self) -> None:
        """Read what there is still to read, and end the thread."""
        os.write(self._waker, b".")
        self._thread.join()
        for read, write in (*self._pipes, (self._wake, self._waker)):
            os.close(read)
            os.close(write)
        for descriptor in self._watched:
            os.close(descriptor)

    def outcome(self, agent: str | None) -> Ended:
        """Return how all of them ended, once closed. `agent`: what torchrun's agent says was wrong, or None."""
        if agent is None and self._ends and all(end.outcome.status == Status.OK for end in self._ends.values()):
            return Ended(Outcome(Status.OK))
        return first_failure(self._ends, self._deaths) or Ended(Outcome(Status.CRASHED, agent or "a rank is missing"))

    def _listen(self) -> None:
        readers = {read: rank for rank, (read, _) in enumerate(self._pipes, self._first)}
        ending = False
        while True:
            waiting = [*readers, *self._watched, *(() if ending else (self._wake,))]
            ready = select.select(waiting, [], [], 0.0 if ending else None)[0]
            for descriptor in ready:
                if descriptor in readers:
                    self._read(readers[descriptor], descriptor)
                elif descriptor in self._watched:
                    self._died(descriptor)
            if ending and not ready:
                return
            ending = ending or self._wake in ready

    def _read(self, rank: int, descriptor: int) -> None:
        read = self._rest.get(rank, b"") + os.read(descriptor, _CHUNK_BYTES)
        *lines, self._rest[rank] = read.split(b"\n")
        for line in lines:
            if line.startswith(_PID):
                self.pids[rank] = int(line[len(_PID) :])
                with contextlib.suppress(OSError):  # it has ended, and was waited for
                    self._watched[os.pidfd_open(self.pids[rank])] = rank
                continue
            with contextlib.suppress(Malformed):  # it was killed while it wrote
                event: Event = decode(line, Event)
                if isinstance(event, Ended):
                    self._ends[rank] = event

    def _died(self, descriptor: int) -> None:
        rank = self._watched.pop(descriptor)
        wrong: str | None = "ended"
        with contextlib.suppress(ChildProcessError):  # the agent was faster
            found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None:
                exited = found.si_code == os.CLD_EXITED
                wrong = (f"exited with code {found.si_status}" if found.si_status else None) if exited else (
                    f"killed by {_name(found.si_status)}"
                )  # fmt: skip
        os.close(descriptor)
        self._deaths.append((rank, wrong))


def first_failure(ends: Mapping[int, Ended], deaths: Sequence[tuple[int, str | None]]) -> Ended | None:
    """Return how the first rank failed that did, by its number; None where none did.

    `deaths`: (rank, what was wrong with its status) in their order. What all ranks say alike is said once.
    """
    failed = {rank: end for rank, end in ends.items() if end.outcome.status != Status.OK}
    for rank, wrong in deaths:
        if rank in failed:
            break
        if wrong is not None and rank not in ends:
            return Ended(Outcome(Status.CRASHED, f"rank {rank}: {wrong}"))
    else:
        rank = min(failed, default=-1)
    if rank < 0:
        return None
    end = failed[rank]
    alike = len({(e.outcome.status, e.outcome.message) for e in failed.values()}) == 1 and len(failed) > 1
    of_all = end.outcome.status == Status.CRASHED and end.outcome.traceback is None  # nothing was raised: a lost loss
    if alike or of_all or end.mistake is not None or end.outcome.status == Status.UNSUPPORTED:
        return end
    return Ended(Outcome(end.outcome.status, f"rank {rank}: {end.outcome.message}", end.outcome.traceback))


def hello(descriptor: int) -> None:
    """Tell the roll which process this rank is."""
    os.write(descriptor, b"%s%d\n" % (_PID, os.getpid()))


def goodbye(descriptor: int, end: Ended) -> None:
    """Tell the roll how this rank ended."""
    data = memoryview(encode(end) + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
