"""What ranks agree on, and how their measurements come together: by a gloo group beside that of the gradients.

All ranks must do the same steps, or they wait for one another for ever: where a rule looks at the clock, rank 0
decides. The numbers go through the host, so that no device is disturbed.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from torchstone.core.over_ranks import throughputs
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import Measured
from torchstone.core.schema.trial import Measurement
from torchstone.execution.timing.stopping import StoppingRule, WarmUp, WarmUpRule
from torchstone.execution.worker.pinning import Seats
from torchstone.execution.worker.ranks.agreed import AgreedRule, AgreedWarmUp


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
        return merged([decode(part, Measured) for part in parts])

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


def merged(parts: list[Measured]) -> Measured:
    """Return the Measured of all ranks, in their order, as one: each value with its rank, facts as rank 0 has them.

    What differs from rank to rank (threads, cores, items/s) is a fact `…_by_rank`.
    """
    measurements: list[Measurement] = []
    for rank, part in enumerate(parts):
        measurements += [msgspec.structs.replace(m, rank=rank) for m in part.measurements]
    each = [part.facts for part in parts]
    facts = msgspec.structs.replace(
        each[0], cores=None, node=None, threads_by_rank=tuple(one.threads_in_effect for one in each),
        cores_by_rank=tuple(one.cores for one in each),
        node_by_rank=() if each[0].node is None else tuple(one.node for one in each),
        items_per_s_by_rank=tuple(rate for _, rate in throughputs(measurements)),
    )  # fmt: skip
    return Measured(tuple(measurements), facts, parts[0].windows_s)
