"""What communication costs: steps with and without it in turn, and a step's collectives alone.

A step without communication computes the same: of DDP it is a step under `no_sync`; of FSDP2 each collective is
replaced by a copy on the spot. The difference is what compute does not hide (Li et al., PyTorch Distributed:
Experiences on Accelerating Data Parallel Training, VLDB 2020, §5.1). All ranks begin each step together, after a
barrier that is not timed, so that the steps without communication also tell which rank is slow by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchstone.core.over_ranks import ALONE, TOGETHER
from torchstone.core.schema.collective import ALL_GATHER, ALL_REDUCE, Collective
from torchstone.core.schema.message import Entered, Event, TrialRequest
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Step, unmarked
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.ranks.group import Alone
from torchstone.execution.worker.setup import Setup
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Replicas

STAGE = "communication"
_SHARE = 0.2  # of a window's budget
_LEAST, _MOST = 4, 30


def steps_of(budget_s: float, step_s: float) -> int:
    """Return how many steps of each kind are taken."""
    return int(min(max(_SHARE * budget_s / (2.0 * step_s), _LEAST), _MOST)) if step_s > 0.0 else _LEAST


def compare_communication(
    request: TrialRequest, setup: Setup, step: Step, step_s: float, batches: Batches, replicas: Replicas, ranks: Alone,
    send: Callable[[Event], None],
) -> None:  # fmt: skip
    """Measure communication in a stage of its own, where steps without it compute the same. `step_s`: alike in all."""
    device, tally = setup.device, setup.tally
    if setup.case.configuration.get("compile", "off") != "off":
        tally.facts.communication_not_measured = "compiled"
        return
    send(Entered(STAGE, system_clock(), measures=True))
    measure_communication(step, batches, replicas, ranks, device, steps_of(request.procedure.budget_s, step_s), tally)


def measure_communication(
    step: Step, batches: Batches, replicas: Replicas, ranks: Alone, device: Device, steps: int, tally: Collector
) -> None:
    """Add the times of `steps` steps with communication, as many without, in turn, and of the communication alone."""

    def once() -> None:
        step(batches.next, unmarked)

    with replicas.recorded() as collectives:
        once()
    together_s: list[float] = []
    alone_s: list[float] = []
    for _ in range(steps):
        together_s.append(_timed(once, ranks, device))
        with replicas.silent():
            alone_s.append(_timed(once, ranks, device))
    tally.steady(TOGETHER, together_s, STAGE)
    tally.steady(ALONE, alone_s, STAGE)
    tally.facts.collectives_per_step = len(collectives)
    tally.facts.communicated_bytes_per_step = sum(one.bytes for one in collectives)
    if collectives:
        exchange = replay(collectives, device)
        exchange()  # the first of a size sets connections up
        tally.steady("communication_time_s", [_timed(exchange, ranks, device) for _ in range(steps)], STAGE)


def _timed(work: Callable[[], None], ranks: Alone, device: Device) -> float:
    device.synchronize()
    ranks.barrier()
    began_s = system_clock()
    work()
    device.synchronize()
    return system_clock() - began_s


def replay(collectives: Sequence[Collective], device: Device) -> Callable[[], None]:
    """Return what does these collectives once more, on numbers of its own: all are issued, then waited for."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the former from torch 2.12
    scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def numbers(one: Collective, elements: int) -> Any:
        return torch.zeros(elements, dtype=getattr(torch, one.dtype), device=device.torch_device)

    whole = [numbers(one, one.elements) for one in collectives]
    parts = [None if one.kind == ALL_REDUCE else numbers(one, one.elements // size) for one in collectives]

    def exchange() -> None:
        works = []
        for one, full, part in zip(collectives, whole, parts, strict=True):
            if one.kind == ALL_REDUCE:
                works.append(dist.all_reduce(full, async_op=True))
            elif one.kind == ALL_GATHER:
                works.append(gather(full, part, async_op=True))
            else:
                works.append(scatter(part, full, async_op=True))
        for work in works:
            work.wait()

    return exchange
