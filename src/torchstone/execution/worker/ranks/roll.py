"""Who the ranks of a trial are, how each of them ended, and which was the first that did not end well.

When a rank dies, the others fail soon after, as their peer is gone: only the first death says what happened. The order
and the statuses are the kernel's (pidfd_open(2), waitid(2) with WNOWAIT, which leaves the process to its parent).
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from torchstone.core.messages import Values
from torchstone.core.schema.codec import Malformed, decode, encode
from torchstone.core.schema.message import ASK_WHERE, Ended, Event
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.worker.outcome import ENDED, SILENT

_CHUNK_BYTES = 1 << 16
_PID = b"pid "
_LEFT_S = 2.0  # for the others to notice by themselves that one has left in silence
_STACKS_S, _PAUSE_S = 0.3, 0.02  # for all ranks to write where they are, and for one to finish its lines


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
        self._stacks: dict[int, list[bytes]] = {}
        self._deaths: list[tuple[int, str]] = []
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

    def where(self) -> Mapping[int, list[bytes]]:
        """Ask every rank for its stack; return the lines of each. One that does not answer says so, by its state."""
        self._stacks.clear()
        alive = {rank: pid for rank, pid in sorted(self.pids.items()) if rank in self._watched.values()}
        for pid in alive.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[ASK_WHERE])
        until_s = time.monotonic() + _STACKS_S
        while len(self._stacks) < len(alive) and time.monotonic() < until_s:
            time.sleep(_PAUSE_S)
        time.sleep(_PAUSE_S)
        return {rank: self._stacks.get(rank) or [_silence(pid)] for rank, pid in alive.items()}

    def outcome(self, agent: str | None, exits: Mapping[int, int] = MappingProxyType({})) -> Ended:
        """Return how all of them ended, once closed. `agent`: what torchrun's agent says was wrong, or None.

        `exits`: the exit codes that the agent saw, by rank: -9 of one that was killed by signal 9.
        """
        if agent is None and self._ends and all(end.outcome.status == Status.OK for end in self._ends.values()):
            return Ended(Outcome(Status.OK))
        deaths = [(rank, _ending(exits[rank]) if why == ENDED and rank in exits else why) for rank, why in self._deaths]
        return first_failure(self._ends, deaths) or Ended(Outcome(Status.CRASHED, agent or "a rank is missing"))

    def _listen(self) -> None:
        readers = {read: rank for rank, (read, _) in enumerate(self._pipes, self._first)}
        ending, end_all_s = False, math.inf
        while True:
            waiting = [*readers, *self._watched, *(() if ending else (self._wake,))]
            ready = select.select(waiting, [], [], 0.0 if ending else _LEFT_S)[0]
            for descriptor in ready:
                if descriptor in readers:
                    self._read(readers[descriptor], descriptor)
                elif descriptor in self._watched:
                    self._died(descriptor)
            if ending and not ready:
                return
            # torchrun's agent takes exit code 0 for success, and the peers of one that left may wait for ever.
            if all(rank in self._ends for rank, _ in self._deaths):
                end_all_s = math.inf
            elif end_all_s == math.inf:
                end_all_s = time.monotonic() + _LEFT_S
            elif time.monotonic() >= end_all_s:
                for descriptor in self._watched:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ending = ending or self._wake in ready

    def _read(self, rank: int, descriptor: int) -> None:
        read = self._rest.get(rank, b"") + os.read(descriptor, _CHUNK_BYTES)
        *lines, self._rest[rank] = read.split(b"\n")
        for line in lines:
            if line.startswith(_PID):
                self.pids[rank] = int(line[len(_PID) :])
                try:
                    self._watched[os.pidfd_open(self.pids[rank])] = rank
                except ProcessLookupError:  # it has ended, and the agent has waited for it
                    self._deaths.append((rank, ENDED))
                continue
            try:
                event: Event = decode(line, Event)
            except Malformed:  # its interpreter wrote where it is, or it was killed while it wrote
                self._stacks.setdefault(rank, []).append(line + b"\n")
                continue
            if isinstance(event, Ended):
                self._ends[rank] = event

    def _died(self, descriptor: int) -> None:
        rank = self._watched.pop(descriptor)
        wrong = ENDED
        with contextlib.suppress(ChildProcessError):  # the agent was faster
            found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None:
                wrong = _ending(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)
        os.close(descriptor)
        self._deaths.append((rank, wrong))


def first_failure(ends: Mapping[int, Ended], deaths: Sequence[tuple[int, str]]) -> Ended | None:
    """Return how the first rank failed that did, by its number; None where none did.

    `deaths`: (rank, what its status says) in their order: one that has said nothing before failed, whatever its status.
    What all ranks say alike is said once.
    """
    failed = {rank: end for rank, end in ends.items() if end.outcome.status != Status.OK}
    for rank, wrong in deaths:
        if rank in failed:
            break
        if rank not in ends:
            values: Values = {"rank": rank, "wrong": wrong}
            return Ended(Outcome(Status.CRASHED, f"rank {rank}: {wrong}", reason=Reason.RANK_DIED, values=values))
    else:
        rank = min(failed, default=-1)
    if rank < 0:
        return None
    end = failed[rank]
    alike = len({(e.outcome.status, e.outcome.message) for e in failed.values()}) == 1 and len(failed) > 1
    of_all = end.outcome.status == Status.CRASHED and end.outcome.traceback is None  # nothing was raised: a lost loss
    if alike or of_all or end.mistake is not None or end.outcome.status == Status.UNSUPPORTED:
        return end
    return Ended(msgspec.structs.replace(end.outcome, message=f"rank {rank}: {end.outcome.message}"))


def _silence(pid: int) -> bytes:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except OSError:  # it has just ended
        return f"{SILENT}\n".encode()
    told = {"T": ", stopped by a signal (SIGSTOP)", "D": ", it waits for a disk or a driver"}
    return f"{SILENT}{told.get(state, '')}\n".encode()


def hello(descriptor: int) -> None:
    """Tell the roll which process this rank is."""
    os.write(descriptor, b"%s%d\n" % (_PID, os.getpid()))


def goodbye(descriptor: int, end: Ended) -> None:
    """Tell the roll how this rank ended."""
    data = memoryview(encode(end) + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


def _ending(code: int) -> str:
    """Return an exit code in words; below 0: the signal."""
    if code >= 0:
        return f"exited with code {code}"
    return f"killed by {signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'}"
