"""Starts the ranks of a trial by torchrun's own agent, forked from the trial's process, and says how all of them ended.

torch.distributed.launcher is what torchrun calls. The trial's process has imported torch, has run no parallel operation
and holds no device, so that forks of it are live at once. It launches once, restarts nothing, and ends with its ranks:
they are in its process group, and the kernel ends them with it. Where the ranks are on several nodes, each node has
such a process, and their agents meet by torchrun's static rendezvous: the order of the nodes is given, so that rank 0
is where the controller is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.core.schema.message import ASK_WHERE, Ended, Meeting, TrialRequest
from torchstone.core.schema.ranks import STRATEGY
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.ranks.interfaces import interface_towards
from torchstone.execution.worker.ranks.rank import Work, be_rank
from torchstone.execution.worker.ranks.roll import Roll

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
            **where, nproc_per_node=size, max_restarts=0, monitor_interval=_LOOKS_EVERY_S, start_method="fork",
            logs_specs=DefaultLogsSpecs(log_dir=os.devnull), signals_to_handle="SIGTERM", shutdown_timeout=_GRACE_S,
        )  # fmt: skip
    # A host's name may not lead back to it (pytorch/pytorch#150532), or lead to an address that only it knows.
    os.environ.setdefault(_INTERFACE, "lo" if meeting is None else interface_towards(meeting.address))
    if request.case.configuration[STRATEGY] == "fsdp2":
        import torch.distributed.fsdp  # noqa: F401  a second that every rank would take for itself
    descriptors = [roll.descriptor(rank) for rank in range(size)]
    node = meeting.names[meeting.node] if meeting is not None else None
    elastic_launch(config, be_rank)(os.getpid(), request, node, descriptor, descriptors, work)


def _alone_here() -> dict[str, Any]:
    return {
        "min_nodes": 1, "max_nodes": 1, "run_id": uuid.uuid4().hex, "rdzv_backend": "c10d",
        "rdzv_endpoint": f"{_HERE}:0", "local_addr": _HERE,
    }  # fmt: skip


def _among_nodes(meeting: Meeting) -> dict[str, Any]:
    nodes = len(meeting.names)
    return {
        "min_nodes": nodes, "max_nodes": nodes, "run_id": str(meeting.port), "rdzv_backend": "static",
        "rdzv_endpoint": f"{meeting.address}:{meeting.port}", "rdzv_configs": {"rank": meeting.node},
    }  # fmt: skip


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
