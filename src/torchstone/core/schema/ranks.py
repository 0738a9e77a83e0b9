"""The ranks of a Case: over how many processes its step is spread, how, and through which back end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AxisStage, Scalar, axes_of
from torchstone.core.schema.case import Case, Placement, Workload
from torchstone.core.schema.machine import Machine

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"


class Collective(msgspec.Struct, frozen=True):
    """`elements`: of the whole, before it is scattered or once it is gathered. `dtype`: torch's word, as "float32"."""

    kind: str
    elements: int
    dtype: str
    bytes: int


WORLD_SIZE = "world_size"
NODES = "nodes"
STRATEGY = "strategy"
BACKEND = "backend"
AXES_OF_RANKS = axes_of(AxisStage.RANKS)
NO_STRATEGY = "none"
# What torch.distributed has for each kind of device. AMD's RCCL is called nccl by PyTorch.
_BACKENDS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("gloo",),
    "cuda": ("nccl", "gloo"),
    "rocm": ("nccl", "gloo"),
    "xpu": ("xccl", "gloo"),
}
_SAME = {"rccl": "nccl"}


def world_size(configuration: Mapping[str, Scalar]) -> int:
    """Return how many processes a step is spread over."""
    return int(configuration.get(WORLD_SIZE) or 1)


def nodes(configuration: Mapping[str, Scalar]) -> int:
    """Return how many machines the processes of a step are spread over."""
    return int(configuration.get(NODES) or 1)


def most_nodes(configurations: Iterable[Mapping[str, Scalar]]) -> int:
    """Return on how many machines the largest of these needs to be."""
    return max(map(nodes, configurations), default=1)


def widest(placement: Placement, configurations: Iterable[Mapping[str, Scalar]]) -> Placement:
    """Return a Placement with all devices of a node that the largest of these Configurations has there."""
    counts = [world_size(one) // nodes(one) for one in configurations]
    return msgspec.structs.replace(placement, count=max(counts, default=1) or 1)


def is_distributed(configuration: Mapping[str, Scalar]) -> bool:
    """Say whether a step runs in a process group, be it of one rank."""
    return configuration.get(STRATEGY) not in (None, "auto", NO_STRATEGY)


def items_together(configuration: Mapping[str, Scalar]) -> int:
    """Return the effective batch: the items that one optimizer step sees, over ranks and accumulation."""
    sizes = (configuration.get(name) or 1 for name in ("batch_size", "grad_accumulation"))
    return world_size(configuration) * int(next(sizes)) * int(next(sizes))


def case_on_ranks(workload: Workload, configuration: Mapping[str, Scalar], placement: Placement) -> Case:
    """Return the Case of a Configuration: its strategy and back end decided, and a device for each rank.

    Raises UsageError as `decided` does.
    """
    whole = decided(configuration, placement.device)
    spread = nodes(whole)
    return Case(workload, whole, msgspec.structs.replace(placement, count=world_size(whole) // spread, nodes=spread))


def single_process(configuration: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return a Configuration as one process without a process group has it: what a rehearsal tries."""
    return {name: value for name, value in configuration.items() if name not in AXES_OF_RANKS}


def decided(configuration: Mapping[str, Scalar], device: str) -> Mapping[str, Scalar]:
    """Return a Configuration with its strategy and back end decided for a kind of device, where it names any of them.

    Raises UsageError where they do not fit one another, or the device.
    """
    if not any(name in configuration for name in AXES_OF_RANKS):
        return configuration
    size, strategy = world_size(configuration), str(configuration.get(STRATEGY, "auto"))
    if size % nodes(configuration):
        raise UsageError(f"world_size={size} does not divide among {nodes(configuration)} nodes: as many ranks on each")
    if strategy == "auto":
        strategy = NO_STRATEGY if size == 1 else "ddp"
    if strategy == NO_STRATEGY:
        if size > 1:
            raise UsageError(f"strategy=none trains in one process, not in {size}: strategy=ddp or strategy=fsdp2")
        return {**configuration, WORLD_SIZE: size, STRATEGY: strategy, BACKEND: "auto"}
    backend = str(configuration.get(BACKEND, "auto"))
    return {**configuration, WORLD_SIZE: size, STRATEGY: strategy, BACKEND: backend_on(device, backend)}


def backend_on(device: str, word: str) -> str:
    """Return the back end that a word means on a kind of device. Raises UsageError naming those that it has."""
    have = _BACKENDS.get(device, ())
    if not have:
        raise UsageError(f"world_size: torch.distributed has no back end for {device}; --device cpu has gloo")
    name = have[0] if word == "auto" else _SAME.get(word, word)
    if name not in have:
        raise UsageError(f"backend={word} does not work on {device}: backend={' or backend='.join(have)}")
    return name


def possible(points: Sequence[Mapping[str, Scalar]]) -> Sequence[Mapping[str, Scalar]]:
    """Return the points of a grid that can be, where others are left.

    Several processes have a strategy, and divide among the nodes.
    """
    kept = [p for p in points if not (world_size(p) > 1 and p.get(STRATEGY) == NO_STRATEGY)]
    return [p for p in kept if world_size(p) % nodes(p) == 0] or kept or points


def check_devices(placement: Placement, machine: Machine) -> None:
    """Raise UsageError where a node has more ranks than devices of that kind, from the placement's index on."""
    devices = sum(d.kind == placement.device and d.index >= placement.index for d in machine.devices)
    if placement.device != "cpu" and placement.count > devices:
        there = f"there {'is' if devices == 1 else 'are'} {devices} of kind {placement.device}"
        after = f" from index {placement.index} on" if placement.index else ""
        each = f"{placement.count} devices on each of {placement.nodes} nodes"
        wanted = f"world_size={placement.devices} needs {'as many devices' if placement.nodes == 1 else each}"
        raise UsageError(f"{wanted}: {there}{after}; --axis world_size={devices * placement.nodes}")


def meant(
    axes: Mapping[str, Sequence[Scalar]], placement: Placement, machine: Machine
) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of a search's axes without `auto`: the strategies and back ends that the device has.

    Raises UsageError where it has no such back end, or fewer devices than the largest world_size.
    """
    found = {axis: tuple(values) for axis, values in axes.items()}
    if STRATEGY in found:
        found[STRATEGY] = tuple(dict.fromkeys("ddp" if word == "auto" else word for word in found[STRATEGY]))
    if BACKEND in found:
        found[BACKEND] = tuple(dict.fromkeys(backend_on(placement.device, str(word)) for word in found[BACKEND]))
    largest, spread = (max((int(n or 1) for n in found.get(axis, ())), default=1) for axis in (WORLD_SIZE, NODES))
    check_devices(msgspec.structs.replace(placement, count=largest // spread, nodes=spread), machine)
    return found
