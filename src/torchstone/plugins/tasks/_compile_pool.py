"""The processes in which torch.compile builds kernels: how many, and that they end before anything is measured.

On a CPU there are none. Inductor's pool starts and idles beside the steps that are measured: on two cores it made them
several times slower. Compiling in the trial's own process takes longer, and leaves nothing behind. For an accelerator
Triton builds hundreds of kernels on a host of many cores, one after the other in a single process: there the pool
works, as torch has it, and is closed when warm-up is over. What is compiled after that, the trial compiles alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch._inductor import config as inductor

from torchstone.core.schema.axis import Scalar
from torchstone.plugins.machine_protocols import Device

_ASYNC = "torch._inductor.async_compile"


class CompilePool:
    """What a trial's torch.compile builds kernels with. It is set when this is made, before anything is compiled."""

    def __init__(self, configuration: Mapping[str, Scalar], device: Device) -> None:
        compiles = configuration.get("compile", "off") not in ("off", None)
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
