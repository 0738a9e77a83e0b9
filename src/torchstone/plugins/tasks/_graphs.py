"""CUDA graphs, which two modes of torch.compile record: step boundaries, and which outputs may be kept.

A graph that is replayed writes to the memory of the time before. What a step gave out is therefore gone after the next:
reading it raises "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"
(torch/_inductor/cudagraph_trees.py of torch 2.13). Written from those sources.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._inductor import config as inductor

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import EIGHT_BIT, Scalar
from torchstone.core.schema.model import Batch
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Mark

# The processes in which torch.compile builds kernels: how many, and that they end before anything is measured.
#
# On a CPU there are none. Inductor's pool starts and idles beside the steps that are measured: on two cores it made
# them several times slower. Compiling in the trial's own process takes longer, and leaves nothing behind. For an
# accelerator Triton builds hundreds of kernels on a host of many cores, one after the other in a single process: there
# the pool works, as torch has it, and is closed when warm-up is over. What is compiled after that, the trial compiles
# alone.

_ASYNC = "torch._inductor.async_compile"


class CompilePool:
    """What a trial's torch.compile builds kernels with. It is set when this is made, before anything is compiled."""

    def __init__(self, configuration: Mapping[str, Scalar], device: Device) -> None:
        compiles = configuration.get("compile", "off") not in ("off", None)
        compiles |= configuration.get("optimizer") in EIGHT_BIT  # torchao compiles their update
        on_device = torch.device(device.torch_device).type != "cpu"
        self._closes = compiles and on_device and not _pools()  # one that a user's own process has already stays
        if compiles:
            inductor.compile_threads = inductor.decide_compile_threads() if on_device else 1

    def close(self) -> None:
        """End the processes, if they are the trial's own."""
        if self._closes and (pools := sys.modules.get(_ASYNC)) is not None:
            pools.shutdown_compile_workers()
            inductor.compile_threads = 1
        self._closes = False


def _pools() -> Any:
    return getattr(sys.modules.get(_ASYNC), "_pool_set", ())


_MODES = ("reduce-overhead", "max-autotune")  # those with "triton.cudagraphs" in torch._inductor.list_mode_options()
_HAVE_NONE = ("cpu", "mps")
_ACCUMULATING = (
    "torch's CUDA graphs write the gradients of a batch over those of the one before (pytorch#169545); "
    "say compile=default, or grad_accumulation=1 with a larger batch"
)

Fetch = Callable[[Callable[[], Batch], Mark], Mapping[str, Any]]


def are_recorded(configuration: Mapping[str, Scalar], device: Device) -> bool:
    """Say whether torch records the steps of that configuration on that device as graphs, or may do so."""
    return configuration.get("compile") in _MODES and _kind(device) not in _HAVE_NONE


def refuse_accumulation(configuration: Mapping[str, Scalar], device: Device) -> None:
    """Raise Unsupported where gradients of several batches would be added up in memory that graphs write over."""
    times = int(configuration.get("grad_accumulation") or 1)
    if times > 1 and are_recorded(configuration, device):
        raise Unsupported(f"compile={configuration['compile']}, grad_accumulation={times}: {_ACCUMULATING}")


def marking_steps(fetch: Fetch, configuration: Mapping[str, Scalar], device: Device) -> Fetch:
    """Return `fetch`, which begins every step, telling torch so where steps are graphs; else as it is.

    What the step before gave out may be written over from there on, and no sooner: a model that is called twice in a
    step would else lose what its first call gave.
    """
    if not are_recorded(configuration, device):
        return fetch

    def begin(pull: Callable[[], Batch], mark: Mark) -> Mapping[str, Any]:
        torch.compiler.cudagraph_mark_step_begin()
        return fetch(pull, mark)

    return begin


def keeper(configuration: Mapping[str, Scalar], device: Device) -> Callable[[torch.Tensor], Any]:
    """Return what is kept of a step's loss, a tensor of one number, without waiting for it.

    On the CPU reading it waits for nothing and keeps nothing alive. A device's loss stays there, and is copied where a
    graph would write over it.
    """
    if _kind(device) == "cpu":
        return torch.Tensor.item
    return _copied if are_recorded(configuration, device) else torch.Tensor.detach


def _copied(loss: torch.Tensor) -> torch.Tensor:
    return loss.detach().clone()


def _kind(device: Device) -> str:
    return str(torch.device(device.torch_device).type)
