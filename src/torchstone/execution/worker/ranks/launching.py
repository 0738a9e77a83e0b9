"""Starts the ranks of a trial by torchrun's own agent, forked from the trial's process, and says how all of them ended.

torch.distributed.launcher is what torchrun calls. The trial's process has imported torch, has run no parallel operation
and holds no device, so that forks of it are live at once. It launches once, restarts nothing, and ends with its ranks:
they are in its process group, and the kernel ends them with it. Where the ranks are on several nodes, each node has
such a process, and their agents meet by torchrun's static rendezvous: the order of the nodes is given, so that rank 0
is where the controller is.

When a rank dies, the others fail soon after, as their peer is gone: only the first death says what happened. The order
and the statuses are the kernel's (pidfd_open(2), waitid(2) with WNOWAIT, which leaves the process to its parent).
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import logging
import math
import os
import select
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import psutil

from torchstone.core.cores import end_with
from torchstone.core.errors import Unsupported
from torchstone.core.messages import Values
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import Malformed, decode, encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import ASK_WHERE, Ended, Event, Meeting, TrialRequest
from torchstone.core.schema.ranks import BACKEND, STRATEGY
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.execution.worker import pinning, pipe
from torchstone.execution.worker.outcome import ENDED, SILENT, ended_by
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.ranks.group import Alone, Group

_DISCARD_PORT = 9  # of RFC 863: nothing is sent to it


def interface_towards(address: str) -> str:
    """Return the name of the interface on the route to an address, be it this node's own. Raises Unsupported."""
    try:
        family, kind, *_, place = socket.getaddrinfo(address, _DISCARD_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # sends nothing: the kernel chooses the route and the address it leaves from
            own = str(probe.getsockname()[0])
    except OSError as fault:
        raise Unsupported(f"the first node, {address}, cannot be reached from this one: {fault}") from fault
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == own for one in addresses):
            return str(name)
    raise Unsupported(f"no network interface here has the address {own}, from which {address} is reached")


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # the user has chosen
_TOPOLOGY = Path("/sys/devices/system/cpu")


def share_of(cores: Sequence[int], rank: int, size: int) -> tuple[int, ...]:
    """Return the logical cores of a rank: neighbours in the order given; one, shared, where there are too few."""
    if size > len(cores):
        return (cores[rank % len(cores)],)
    begin, end = (len(cores) * n // size for n in (rank, rank + 1))
    return tuple(cores[begin:end])


def by_place(cores: Iterable[int], topology: Path = _TOPOLOGY) -> list[int]:
    """Return logical cores with those of one package, and of one physical core, beside one another."""
    return sorted(cores, key=lambda core: (*_place(topology / f"cpu{core}" / "topology"), core))


def threads_for(share: Sequence[int], environment: Mapping[str, str], topology: Path = _TOPOLOGY) -> int | None:
    """Return the number of threads of a rank with that share: one a physical core; None where the user has said it.

    torchrun sets OMP_NUM_THREADS=1 where it is unset (torch/distributed/run.py): on a CPU that leaves cores idle.
    """
    if any(environment.get(name) for name in _THREAD_VARIABLES):
        return None
    return len({_place(topology / f"cpu{core}" / "topology") for core in share} - {(-1, -1)}) or len(share)


def _place(folder: Path) -> tuple[int, int]:
    try:
        package, core = (
            int((folder / name).read_text(encoding="ascii")) for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):  # a sandbox without /sys, or another kernel
        return -1, -1
    return package, core


_BEYOND_TIMEOUT_S = 60.0  # the controller ends a trial at its timeout; a collective shall not end it before


Work = Callable[[TrialRequest, EventPipe, Alone], Outcome]


class _SilentPipe(EventPipe):
    """The pipe of a rank whose events nobody needs: rank 0 sends them."""

    def __init__(self) -> None:
        super().__init__(-1)

    def send(self, event: Event) -> None:
        """Send nothing."""


def be_rank(
    trial: int, request: TrialRequest, node: str | None, descriptor: int, roll: Sequence[int], work: Work
) -> None:
    """Carry a request out as the rank that the environment says; return when that went well, else end the process.

    `trial`: the pid of the process that forks it. `node`: its name, where there are several. `descriptor`: of the
    trial's events, for rank 0. `roll`: of every rank of this node, to say how it ended.
    """
    local_rank, rank, local_size = (int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "LOCAL_WORLD_SIZE"))
    end_with(trial)
    own = roll[local_rank]
    pipe.prepare_process(descriptor)
    faulthandler.register(signal.Signals[ASK_WHERE], own, all_threads=False)  # so that it is known whose stack it is
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches the controller alone; who interrupts one rank ends it
    hello(own)
    try:
        cores = _bind(local_rank, local_size)
        request = _on_own_device(request, local_rank)
        group = _join(request, node, cores)
        line = EventPipe(descriptor) if rank == 0 else _SilentPipe()
        end = Ended(work(request, line, group))
        group.barrier()  # nobody leaves while another still communicates
    except BaseException as error:
        end = ended_by(error)
    goodbye(own, end)
    sys.stderr.flush()
    if end.outcome.status != Status.OK:
        os._exit(1)  # at once: tearing down torch may wait for the others
    _leave()


def _bind(local_rank: int, local_size: int) -> tuple[int, ...]:
    """Bind this process to its share of the cores, with a thread for each; return the share."""
    import torch

    share = share_of(by_place(pinning.OURS), local_rank, local_size)
    os.sched_setaffinity(0, share)
    pinning.OURS = frozenset(share)  # what a loader's process may use
    threads = threads_for(share, os.environ)
    if threads is not None:
        torch.set_num_threads(threads)
    return share


def _on_own_device(request: TrialRequest, local_rank: int) -> TrialRequest:
    placement: Placement = request.case.placement
    if placement.device == "cpu":
        return request
    own = msgspec.structs.replace(placement, index=placement.index + local_rank)
    return msgspec.structs.replace(request, case=msgspec.structs.replace(request.case, placement=own))


def _join(request: TrialRequest, node: str | None, cores: Sequence[int]) -> Group:
    import torch.distributed as dist

    limit_s = request.procedure.timeout_s + _BEYOND_TIMEOUT_S
    placement = request.case.placement
    if placement.device in ("cuda", "rocm"):
        import torch

        torch.cuda.set_device(placement.index)
    dist.init_process_group(str(request.case.configuration[BACKEND]), timeout=datetime.timedelta(seconds=limit_s))
    return Group(limit_s, cores, Facts(cores=_in_words(cores), node=node))


def _leave() -> None:
    import torch.distributed as dist

    dist.destroy_process_group()


def _in_words(cores: Sequence[int]) -> str:
    """Return cores as lists of the kernel are written: 0-3,8."""
    parts: list[str] = []
    for core in sorted(cores):
        first, _, last = parts[-1].partition("-") if parts else ("", "", "")
        if parts and int(last or first) == core - 1:
            parts[-1] = f"{first}-{core}"
        else:
            parts.append(str(core))
    return ",".join(parts)


_HERE = "127.0.0.1"  # all ranks are on this machine
_INTERFACE = "GLOO_SOCKET_IFNAME"
_LOOKS_EVERY_S = 0.25  # the agent looks at its processes; what a rank measures goes past it
_GRACE_S = 2  # of ranks whose peer has died, before they are killed
# Lets LaunchConfig ask whether there is a GPU without initialising a driver, whose device no fork could then use.
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def launch(request: TrialRequest, meeting: Meeting | None, line: EventPipe, work: Work) -> Ended:
    """Carry a request out in as many processes as its Case has ranks here; return the end of them all.

    `meeting`: with those of further nodes. `work`: of a rank. Rank 0 sends the events. Raises Unsupported where ranks
    cannot be forked, and for several nodes whose ranks were not told where to meet.
    """
    if sys.platform != "linux":
        raise Unsupported("several ranks need Linux: they are forked from the trial's process")
    size = request.case.placement.count
    if request.case.placement.nodes > 1 and meeting is None:
        raise Unsupported("ranks on several nodes are measured by `torchstone run`, `tune` and `submit`")
    roll = Roll(size, size * meeting.node if meeting is not None else 0)
    wrong: str | None = None
    exits: dict[int, int] = {}
    with _stacks_of_ranks(roll, line), line.shared() as descriptor:
        try:
            _elastic(request, meeting, descriptor, roll, work)
        except Exception as error:  # ChildFailedError, with a report of several lines, or the agent's own
            wrong = f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}"
            exits = {rank: failure.exitcode for rank, failure in getattr(error, "failures", {}).items()}
        finally:
            roll.close()
    line.write(b"\n")  # rank 0 may have been killed within a line
    return roll.outcome(wrong, exits)


def _elastic(request: TrialRequest, meeting: Meeting | None, descriptor: int, roll: Roll, work: Work) -> None:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in ("torch.distributed.elastic", "torch.distributed.launcher", "torch.multiprocessing"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # an Outcome says it in one line
    size = request.case.placement.count
    where = _among_nodes(meeting) if meeting is not None else _alone_here()
    with _counting_by_nvml():
        config = LaunchConfig(
            **where,
            nproc_per_node=size,
            max_restarts=0,
            monitor_interval=_LOOKS_EVERY_S,
            start_method="fork",
            logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
            signals_to_handle="SIGTERM",
            shutdown_timeout=_GRACE_S,
        )
    # A host's name may not lead back to it (pytorch/pytorch#150532), or lead to an address that only it knows.
    os.environ.setdefault(_INTERFACE, "lo" if meeting is None else interface_towards(meeting.address))
    if request.case.configuration[STRATEGY] == "fsdp2":
        import torch.distributed.fsdp  # noqa: F401  a second that every rank would take for itself
    descriptors = [roll.descriptor(rank) for rank in range(size)]
    node = meeting.names[meeting.node] if meeting is not None else None
    elastic_launch(config, be_rank)(os.getpid(), request, node, descriptor, descriptors, work)


def _alone_here() -> dict[str, Any]:
    return {
        "min_nodes": 1,
        "max_nodes": 1,
        "run_id": uuid.uuid4().hex,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": f"{_HERE}:0",
        "local_addr": _HERE,
    }


def _among_nodes(meeting: Meeting) -> dict[str, Any]:
    nodes = len(meeting.names)
    return {
        "min_nodes": nodes,
        "max_nodes": nodes,
        "run_id": str(meeting.port),
        "rdzv_backend": "static",
        "rdzv_endpoint": f"{meeting.address}:{meeting.port}",
        "rdzv_configs": {"rank": meeting.node},
    }


@contextlib.contextmanager
def _counting_by_nvml() -> Iterator[None]:
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ.setdefault(_COUNT_BY_NVML, "1")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_COUNT_BY_NVML]


@contextlib.contextmanager
def _stacks_of_ranks(roll: Roll, line: EventPipe) -> Iterator[None]:
    """Answer the question where the trial is with the stacks of its ranks: its own process only waits for them."""
    number = signal.Signals[ASK_WHERE]

    def ask(_number: int, _frame: object) -> None:
        for rank, lines in roll.where().items():
            line.write(b"\nrank %d\n%b" % (rank, b"".join(lines)))

    faulthandler.unregister(number)
    before = signal.signal(number, ask)
    try:
        yield
    finally:
        signal.signal(number, before)


# ── who the ranks are, and how each ended ─────────────────────────────────────────────────────────────────────


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
    What all ranks say alike is said once. A process closes its connections before the kernel tells of its death: that a
    peer is gone counts only where no other reason is known, but the agent's SIGTERM to the ranks that were left.
    """
    failed = {rank: end for rank, end in ends.items() if end.outcome.status != Status.OK}
    own = {rank: end for rank, end in failed.items() if end.outcome.reason != Reason.PEER_GONE}
    silent = [rank for rank, wrong in deaths if rank not in ends and wrong != _ending(-signal.SIGTERM)]
    if own or silent:
        failed = own
    for rank, wrong in deaths:
        if rank in failed:
            break
        if rank not in ends and (rank in silent or not silent):
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
