"""One rank: bound to its cores, joined to its process group, it carries the trial out beside the others."""

from __future__ import annotations

import datetime
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Sequence

import msgspec

from torchstone.core.lifetime import end_with
from torchstone.core.schema.case import Placement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import ASK_WHERE, Ended, Event, TrialRequest
from torchstone.core.schema.ranks import BACKEND
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.worker import crash_handler, pinning
from torchstone.execution.worker.outcome import ended_by
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.ranks.cores import by_place, share_of, threads_for
from torchstone.execution.worker.ranks.group import Alone, Group
from torchstone.execution.worker.ranks.roll import goodbye, hello

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
    crash_handler.prepare(descriptor)
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
