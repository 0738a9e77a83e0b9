"""How ranks share a training step, as a user would write it: DistributedDataParallel, or fully_shard (FSDP2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.collective import ALL_REDUCE, Collective
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.ranks import STRATEGY, is_distributed
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Replicas
from torchstone.plugins.tasks.train import collectives


class _Ddp(DistributedDataParallel):
    """DDP through which the module's own attributes are seen: a loss may read the model's configuration."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


class Ddp:
    """Every rank has the whole model; gradients are averaged in buckets while the backward pass goes on."""

    def __init__(self, module: torch.nn.Module, device: Device) -> None:
        place = torch.device(device.torch_device)
        self.module = module
        self.call: Any = _Ddp(module, device_ids=None if place.type == "cpu" else [place])
        self._silent = False

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass averages gradients: that of the last batch before an update."""
        self.call.require_backward_grad_sync = last and not self._silent  # what no_sync() sets

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Have the steps within communicate nothing."""
        self._silent = True
        self.synchronize(last=False)
        try:
            yield
        finally:
            self._silent = False
            self.synchronize(last=True)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Sequence[Collective]]:
        """Return the collectives of a step: DDP has its buckets, after its first steps have ordered them anew."""
        found: list[Collective] = []
        yield found
        told = self.call._get_ddp_logging_data()
        sizes = told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes") or ""
        kind = next(p.dtype for p in self.module.parameters() if p.requires_grad)
        each = [int(size) for size in str(sizes).split(",") if size.strip()]
        word = str(kind).removeprefix("torch.")
        found += [Collective(ALL_REDUCE, size // kind.itemsize, word, size) for size in each]

    def facts(self) -> Facts:
        """Return what was settled."""
        return Facts()


class Fsdp2:
    """Every rank has a part of each weight; a unit's weights are gathered before they are used."""

    def __init__(self, module: torch.nn.Module, device: Device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        if any(not parameter.is_contiguous() for parameter in module.parameters()):
            raise Unsupported("strategy=fsdp2: fully_shard takes contiguous weights only; channels_last=off")
        mesh = init_device_mesh(torch.device(device.torch_device).type, (dist.get_world_size(),))
        self._units = units(module)
        self._sums = not collectives.has_mean(torch.device(device.torch_device))
        for unit in (*self._units, module):
            fully_shard(unit, mesh=mesh)
            if self._sums:
                _divide_sums(unit)
        self.call: Any = module
        self.module = module

    def synchronize(self, *, last: bool) -> None:
        """Say whether the next backward pass reduces gradients: that of the last batch before an update."""
        self.call.set_requires_gradient_sync(last)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Have the steps within communicate nothing: each rank copies its own part wherever another's would come."""
        with collectives.replaced_by_copies():
            yield

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Sequence[Collective]]:
        """Return the collectives of the step within."""
        with collectives.recorded() as found:
            yield found

    def facts(self) -> Facts:
        """Return the units that are sharded by themselves, and which give their weights back after the forward pass.

        Where nobody says, torch decides, and keeps the root's (pytorch/pytorch#155319).
        """
        units = [_resharding(unit) for unit in self._units]
        return Facts(
            fsdp_units=len(units),
            reshard_after_forward=(_resharding(self.module), *sorted(set(units))),
            fsdp_gradients="summed" if self._sums else None,
        )


def units(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the blocks of a model that are sharded one by one: those of its lists of equal modules.

    So do PyTorch's tutorial of FSDP2 and torchtitan: each transformer block, then the whole.
    """
    found: list[torch.nn.Module] = []
    for part in module.modules():
        if isinstance(part, torch.nn.ModuleList | torch.nn.Sequential) and part is not module:
            blocks = list(part)
            alike = len(blocks) > 1 and len({type(block) for block in blocks}) == 1
            if alike and all(any(True for _ in block.parameters()) for block in blocks):
                found += [block for block in blocks if not any(block in list(own.modules()) for own in found)]
    return found


def _divide_sums(unit: Any) -> None:
    """Have a unit that is sharded ask for sums of its gradients, and divide them itself."""
    ask = getattr(unit, "set_force_sum_reduction_for_comms", None)
    if ask is None:
        raise Unsupported("strategy=fsdp2: the backend of this torch has no mean of gradients; strategy=ddp")
    ask(True)


def _resharding(unit: Any) -> str:
    """Say whether a unit gives its weights back after the forward pass, as torch has resolved it."""
    group = getattr(unit._get_fsdp_state(), "_fsdp_param_group", None)
    if group is None:
        return "no weights of its own"
    return "yes" if getattr(group, "_reshard_after_forward", None) else "no"


def replicas_of(module: torch.nn.Module, configuration: Mapping[str, Scalar], device: Device) -> Replicas | None:
    """Share a module that is on its device among the ranks, as the Configuration says; None for one process."""
    if not is_distributed(configuration):
        return None
    if not dist.is_initialized():
        raise Unsupported(f"strategy={configuration[STRATEGY]}: no process group is here; `torchstone run` has one")
    return Ddp(module, device) if configuration[STRATEGY] == "ddp" else Fsdp2(module, device)
