"""For profilers: a torch.profiler trace of a few steps, and NVTX ranges for nsys. Both name steps and phases alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchstone.core.own_files import moved
from torchstone.execution.timing.loop import Source, Step, unmarked
from torchstone.execution.timing.ranges import Ranges
from torchstone.execution.worker.profiled import profiled
from torchstone.plugins.machine_protocols import Device

_STEPS = 3


def trace(step: Step, source: Source, device: Device, path: str) -> str | None:
    """Write a Chrome trace (open it in Perfetto) of three steps to `path`; return it, or None if it could not be.

    It comes after everything was measured, looking closely disturbs: a range of record_function alone costs 18 µs.
    """
    from torch.profiler import ProfilerActivity, record_function, supported_activities

    opened: list[Any] = []

    def push(name: str) -> None:
        opened.append(record_function(name))
        opened[-1].__enter__()

    ranged = Ranges(push, lambda: opened.pop().__exit__(None, None, None)).around(step)
    ranged(source, unmarked)  # the names of the phases are known after one step
    wanted = [
        a for a in supported_activities() if a in (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)
    ]
    with profiled(wanted, record_shapes=True) as profiler:
        for _ in range(_STEPS):
            ranged(source, unmarked)
        device.synchronize()
    try:
        with moved(Path(path)) as beside:
            profiler.export_chrome_trace(str(beside))
    except FileNotFoundError:  # it prints what went wrong, and raises nothing
        return None
    return path


def with_nvtx(step: Step) -> tuple[Step, str]:
    """Return the step within NVTX ranges and "on"; the step as it is and why not where this torch has none."""
    import torch

    nvtx: Any = torch.cuda.nvtx
    try:
        nvtx.range_push("torchstone")
        nvtx.range_pop()
    except RuntimeError as error:  # a build without CUDA has the functions, and they raise
        return step, f"off: {str(error).splitlines()[0]}"
    return Ranges(nvtx.range_push, nvtx.range_pop).around(step), "on"
