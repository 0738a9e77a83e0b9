"""What ranks agree on, and how their measurements come together: by a gloo group beside that of the gradients.

All ranks must do the same steps, or they wait for one another for ever: where a rule looks at the clock, rank 0
decides. The numbers go through the host, so that no device is disturbed.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from torchstone.core.over_ranks import ALONE as ALONE_METRIC
from torchstone.core.over_ranks import TOGETHER, throughputs
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Entered, Event, Measured, TrialRequest
from torchstone.core.schema.ranks import ALL_GATHER, ALL_REDUCE, Collective
from torchstone.core.schema.trial import Measurement
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Step, unmarked
from torchstone.execution.timing.stopping import StoppingRule, StopReason, WarmUp, WarmUpRule
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.pinning import Seats
from torchstone.execution.worker.setup import Setup
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches, Replicas

# Rules that all ranks follow alike: rank 0 looks at its clock, at steps known to all beforehand, and tells the others.
#
# Between two looks a rank asks nobody: the looks are as far apart as those of the rule itself (execution/timing).

_APART = 1.15  # as UntilQuiet looks
_FIRST = 8  # a look after an eighth of the budget
_REASONS = tuple(StopReason)

Agree = Callable[[float], float]  # gives the value of rank 0


class AgreedWarmUp:
    """A WarmUp after each of whose steps rank 0 decides."""

    def __init__(self, plan: WarmUp, agree: Agree) -> None:
        self._plan, self._agree = plan, agree

    @property
    def settled(self) -> bool:
        """Whether rank 0's steps had settled."""
        return self._plan.settled

    def goes_on(self, count: int, newest_s: Sequence[float], elapsed_s: float) -> bool:
        """Return whether another step is needed, as rank 0 sees it."""
        return bool(self._agree(float(self._plan.goes_on(count, newest_s, elapsed_s))))


class AgreedRule:
    """A StoppingRule of rank 0. `budget_s`: of the window. `step_s`: what a step takes, the same number in all ranks.

    `turn`: steps after which the coming of batches repeats: a window ends at one of them.
    """

    def __init__(self, rule: StoppingRule, agree: Agree, budget_s: float, step_s: float, turn: int = 1) -> None:
        self._rule, self._agree, self._budget_s, self._turn = rule, agree, budget_s, turn
        self.looks = rule.looks
        self._next = self._whole(budget_s / _FIRST / step_s if step_s > 0.0 else 1.0)

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> StopReason | None:
        """Return why to stop, in every rank at the same step."""
        if steps < self._next:
            return None
        reason = self._rule.consider(steps, elapsed_s, recent)
        told = int(self._agree(-1.0 if reason is None else float(_REASONS.index(reason))))
        if told >= 0:
            return _REASONS[told]
        left = self._budget_s / elapsed_s if elapsed_s > 0.0 else _APART
        wanted = steps * min(_APART, left) if left > 1.0 else steps + 1.0
        self._next = self._whole(self._agree(max(steps + 1.0, wanted)))
        return None

    def _whole(self, steps: float) -> int:
        return self._turn * max(1, math.ceil(steps / self._turn))


# What communication costs: steps with and without it in turn, and a step's collectives alone.
#
# A step without communication computes the same: of DDP it is a step under `no_sync`; of FSDP2 each collective is
# replaced by a copy on the spot. The difference is what compute does not hide (Li et al., PyTorch Distributed:
# Experiences on Accelerating Data Parallel Training, VLDB 2020, §5.1). All ranks begin each step together, after a
# barrier that is not timed, so that the steps without communication also tell which rank is slow by itself.

STAGE = "communication"
_SHARE = 0.2  # of a window's budget
_LEAST, _MOST = 4, 30


def step_counts(budget_s: float, step_s: float) -> int:
    """Return how many steps of each kind are taken."""
    return int(min(max(_SHARE * budget_s / (2.0 * step_s), _LEAST), _MOST)) if step_s > 0.0 else _LEAST


def compare_communication(
    request: TrialRequest,
    setup: Setup,
    step: Step,
    step_s: float,
    batches: Batches,
    replicas: Replicas,
    ranks: Alone,
    send: Callable[[Event], None],
) -> None:
    """Measure communication in a stage of its own, where steps without it compute the same. `step_s`: alike in all."""
    device, tally = setup.device, setup.tally
    if setup.case.configuration.get("compile", "off") != "off":
        tally.facts.communication_not_measured = "compiled"
        return
    send(Entered(STAGE, system_clock(), measures=True))
    measure_communication(
        step, batches, replicas, ranks, device, step_counts(request.procedure.budget_s, step_s), tally
    )


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
    tally.steady(ALONE_METRIC, alone_s, STAGE)
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


class Alone:
    """A trial of one process. `facts`: what is to be known of this rank."""

    rank, size = 0, 1
    facts = Facts()

    def agreed(self, value: float) -> float:
        """Return the value of rank 0."""
        return value

    def warm_up(self, plan: WarmUp) -> WarmUpRule:
        """Return a rule that all ranks follow alike."""
        return plan

    def rule(self, rule: StoppingRule, budget_s: float, step_s: float, turn: int) -> StoppingRule:
        """Return a rule that all ranks follow alike: of a window of that budget, with steps of that length."""
        return rule

    def settle(self, *, pinned: bool) -> None:
        """Keep the threads of this rank on its cores, once there are all of them."""

    def joined(self, measured: Measured) -> Measured | None:
        """Return what all ranks measured, in rank 0; None in the others."""
        return measured

    def barrier(self) -> None:
        """Wait until all ranks are here."""


ALONE = Alone()


class Group(Alone):
    """The ranks of this job, once torch.distributed is initialised."""

    def __init__(self, limit_s: float, cores: Sequence[int], facts: Facts) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._cores, self.facts = cores, msgspec.structs.replace(facts, ranks=self.size)
        self._control: Any = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=limit_s))

    def agreed(self, value: float) -> float:
        """Return the value of rank 0."""
        number = self._torch.tensor([value], dtype=self._torch.float64)
        self._dist.broadcast(number, 0, group=self._control)
        return float(number)

    def warm_up(self, plan: WarmUp) -> WarmUpRule:
        """Return a rule by which rank 0 decides after each step."""
        return AgreedWarmUp(plan, self.agreed)

    def rule(self, rule: StoppingRule, budget_s: float, step_s: float, turn: int) -> StoppingRule:
        """Return a rule by which rank 0 decides, at steps that all know."""
        return AgreedRule(rule, self.agreed, budget_s, step_s, turn)

    def settle(self, *, pinned: bool) -> None:
        """Move threads that OpenMP has bound by the cores of the whole machine to those of this rank."""
        if pinned:
            Seats(bound=True).move(self._cores)

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._dist.all_reduce(self._torch.zeros(1), group=self._control)

    def joined(self, measured: Measured) -> Measured | None:
        """Return what all ranks measured, in rank 0; None in the others. They meet as JSON: nothing is unpickled."""
        parts = self._gathered(encode(measured))
        if parts is None:
            return None
        return merge_ranks([decode(part, Measured) for part in parts])

    def _gathered(self, data: bytes) -> list[bytes] | None:
        torch, dist = self._torch, self._dist
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(data)
        dist.all_reduce(sizes, group=self._control)
        longest = int(sizes.max())
        own = torch.frombuffer(bytearray(data.ljust(longest)), dtype=torch.uint8)
        every = [torch.empty_like(own) for _ in range(self.size)] if self.rank == 0 else None
        dist.gather(own, every, dst=0, group=self._control)
        if every is None:
            return None
        return [one.numpy().tobytes()[: int(size)] for one, size in zip(every, sizes, strict=True)]


def merge_ranks(parts: list[Measured]) -> Measured:
    """Return the Measured of all ranks, in their order, as one: each value with its rank, facts as rank 0 has them.

    What differs from rank to rank (threads, cores, items/s) is a fact `…_by_rank`.
    """
    measurements: list[Measurement] = []
    for rank, part in enumerate(parts):
        measurements += [msgspec.structs.replace(m, rank=rank) for m in part.measurements]
    each = [part.facts for part in parts]
    facts = msgspec.structs.replace(
        each[0],
        cores=None,
        node=None,
        threads_by_rank=tuple(one.threads_in_effect for one in each),
        cores_by_rank=tuple(one.cores for one in each),
        node_by_rank=() if each[0].node is None else tuple(one.node for one in each),
        items_per_s_by_rank=tuple(rate for _, rate in throughputs(measurements)),
    )
    return Measured(tuple(measurements), facts, parts[0].windows_s)
