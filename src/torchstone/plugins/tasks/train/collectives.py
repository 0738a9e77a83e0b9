"""The collectives that FSDP2 calls by name: written down, or replaced by copies on the spot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from torchstone.core.schema.collective import ALL_GATHER, REDUCE_SCATTER, Collective

# Under two names each: torch 2.12 has new ones.
_GATHERS = ("all_gather_into_tensor", "all_gather_single")
_SCATTERS = ("reduce_scatter_tensor", "reduce_scatter_single")
_Call = Callable[..., Any]


class _Done:
    """The handle of a collective that has ended."""

    def wait(self) -> bool:
        """Return at once."""
        return True


def _ends(given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the output and the input of a collective that is called by either of its names."""
    words = ("output", "input")[len(given) :]
    both = [*given[:2], *(named[name] if name in named else named[f"{name}_tensor"] for name in words)]
    return both[0], both[1]


def _gather_copy(*given: Any, **named: Any) -> _Done | None:
    output, own = _ends(given, named)
    for part in output.view(-1, own.numel()):
        if part.data_ptr() != own.data_ptr():  # a rank gathers into a buffer that has its own part already
            part.copy_(own.view(-1))
    return _Done() if named.get("async_op") else None


def _scatter_copy(*given: Any, **named: Any) -> _Done | None:
    output, whole = _ends(given, named)
    output.view(-1).copy_(whole.reshape(-1)[: output.numel()])
    return _Done() if named.get("async_op") else None


def has_mean(place: torch.device) -> bool:
    """Ask the ranks' backend whether the mean that it scatters is one: all ranks ask, or none.

    fully_shard asks for a mean. gloo of torch 2.8 returns the sum, and says nothing (pytorch/pytorch#162338): gradients
    are then as many times too large as there are ranks. oneCCL refuses it on some devices (intel/torch-xpu-ops#2361).
    """
    size = dist.get_world_size()
    if size == 1:  # its mean is its own
        return True
    mean = torch.zeros(1, device=place)
    scatter: _Call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # before torch 2.12
    try:
        scatter(mean, torch.ones(size, device=place), op=dist.ReduceOp.AVG)
    except RuntimeError:
        return False
    return abs(float(mean) - 1.0) < 0.01


@contextlib.contextmanager
def _in_place_of(calls: Mapping[str, _Call]) -> Iterator[None]:
    before = {name: getattr(dist, name) for name in calls if hasattr(dist, name)}
    try:
        for name in before:
            setattr(dist, name, calls[name])
        yield
    finally:
        for name, call in before.items():
            setattr(dist, name, call)


@contextlib.contextmanager
def replaced_by_copies() -> Iterator[None]:
    """Have gathers and scatters within copy this rank's own part, which costs what any copy of the result does."""
    with _in_place_of({**dict.fromkeys(_GATHERS, _gather_copy), **dict.fromkeys(_SCATTERS, _scatter_copy)}):
        yield


@contextlib.contextmanager
def recorded() -> Iterator[list[Collective]]:
    """Return a list to which the gathers and scatters within are added."""
    found: list[Collective] = []

    def noting(kind: str, name: str) -> _Call:
        real: _Call = getattr(dist, name, _absent)

        def call(*given: Any, **named: Any) -> Any:
            output, source = _ends(given, named)
            whole = output if kind == ALL_GATHER else source
            word, size = str(whole.dtype).removeprefix("torch."), whole.numel() * whole.element_size()
            found.append(Collective(kind, whole.numel(), word, size))
            return real(*given, **named)

        return call

    calls = {name: noting(ALL_GATHER, name) for name in _GATHERS}
    calls |= {name: noting(REDUCE_SCATTER, name) for name in _SCATTERS}
    with _in_place_of(calls):
        yield found


def _absent(*_others: Any, **_named: Any) -> Any:
    raise AttributeError("torch.distributed has no such collective")
