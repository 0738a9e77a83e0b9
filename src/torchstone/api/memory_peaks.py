"""Resets peak-memory counters: trials that share a process would else all report the largest peak so far."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

_CLEAR = Path("/proc/self/clear_refs")
_HIGH_WATER = "5"  # proc(5): resets the peak of the resident memory to what it is now


def reset_peaks(torch_device: Any) -> None:
    """Give unused memory back to the device, and start the peaks of device and process at what is in use now.

    On systems other than Linux the process's own peak cannot be reset, and stays that of its whole life.
    """
    import torch

    gc.collect()
    if torch_device.type != "cpu":
        module = torch.get_device_module(torch_device)
        if hasattr(module, "empty_cache"):
            module.empty_cache()
        if hasattr(module, "reset_peak_memory_stats"):
            module.reset_peak_memory_stats(torch_device)  # which device is the current one is the user's to change
    try:
        _CLEAR.write_text(_HIGH_WATER, encoding="ascii")
    except OSError:  # another system, or a sandbox that does not let us
        return
