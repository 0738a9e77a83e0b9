"""Starts the ranks of a trial by torchrun's own agent, forked from the trial's process, and says how all of them ended.

torch.distributed.launcher is what torchrun calls. The trial's process has imported torch, has run no parallel operation
and holds no device, so that forks of it are live at once. It launches once, restarts nothing, and ends with its ranks:
they are in its process group, and the kernel ends them with it. Where the ranks are on several nodes, each node has
such a process, and their agents meet by torchrun's static rendezvous: the order of the nodes is given, so that rank 0
is where the controller is.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from torchstone.core.cores import end_with
from torchstone.core.errors import Unsupported
from torchstone.core.schema.case import Placement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import ASK_WHERE, Ended, Event, Meeting, TrialRequest
from torchstone.core.schema.ranks import BACKEND, STRATEGY
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.worker import pinning, pipe
from torchstone.execution.worker.outcome import ended_by
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.ranks.group import Alone, Group
from torchstone.execution.worker.ranks.roll import Roll, goodbye, hello

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
