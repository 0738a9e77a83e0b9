"""A torch.profiler trace of a few steps, after everything was measured: looking closely disturbs."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.extend import Device
from torchstone.terms.batch import Batch

_STEPS = 3


def trace(step: Callable[[Callable[[], Batch]], None], source: Callable[[], Batch], device: Device, path: str) -> str:
    """Write a Chrome trace (open it in Perfetto) of three steps to `path`, and return the path."""
    from torch.profiler import ProfilerActivity, profile, supported_activities

    wanted = [
        a for a in supported_activities() if a in (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)
    ]
    with profile(activities=wanted, record_shapes=True) as profiler:
        for _ in range(_STEPS):
            step(source)
        device.synchronize()
    profiler.export_chrome_trace(path)
    return path
