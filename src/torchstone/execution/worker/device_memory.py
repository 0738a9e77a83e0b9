"""The peak device memory of a trial: of its warm-up, and, after a reset, of its windows.

Compilers and libraries try kernels in the first steps, each with a workspace of its own. One peak of both would say
that a step needs what only the choice of its kernels did.
"""

from __future__ import annotations

from torchstone.core.schema.memory_figures import DEVICE_PEAKS
from torchstone.execution.worker.collector import Collector
from torchstone.plugins.machine_protocols import Device


def end_warm_up(device: Device, tally: Collector) -> None:
    """Add the peaks so far as those of the warm-up, and let the allocator's begin at what is held now.

    A device that cannot begin anew keeps its one peak, of the whole process, which is then that of the windows, too.
    """
    for metric, value in device.memory().items():
        if metric in DEVICE_PEAKS:
            tally.warm_up_peak(metric, value)
    if str(device.torch_device).startswith("cpu"):
        return
    import torch

    reset = getattr(torch.get_device_module(device.torch_device), "reset_peak_memory_stats", None)
    if reset is not None:
        reset(device.torch_device)
