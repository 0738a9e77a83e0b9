"""A torch.profiler trace of a few steps, after everything was measured: looking closely disturbs."""

from __future__ import annotations

from pathlib import Path

from torchstone.extend import Device
from torchstone.instrument.loop import Source, Step

_STEPS = 3


def trace(step: Step, source: Source, device: Device, path: str) -> str | None:
    """Write a Chrome trace (open it in Perfetto) of three steps to `path`; return it, or None if it could not be."""
    from torch.profiler import ProfilerActivity, profile, supported_activities

    wanted = [
        a for a in supported_activities() if a in (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)
    ]
    with profile(activities=wanted, record_shapes=True) as profiler:
        for _ in range(_STEPS):
            step(source)
        device.synchronize()
    profiler.export_chrome_trace(path)
    return path if Path(path).exists() else None  # it prints what went wrong, and raises nothing
