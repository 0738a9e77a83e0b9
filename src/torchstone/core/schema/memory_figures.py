"""Which figure is the peak memory of a Case: the one order of preference among those that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

V = TypeVar("V")

# What the allocator holds is what nobody else can have; what tensors hold is less.
DEVICE_PEAKS = ("peak_reserved_bytes", "peak_allocated_bytes")
HOST_PEAK = "peak_rss_bytes"
PEAKS = (*DEVICE_PEAKS, HOST_PEAK)


def memory_figures(device: str) -> tuple[str, ...]:
    """Return the figures of peak memory on that kind of device (cpu, cuda, …): the first that was measured counts.

    What the process takes of the host's memory counts on the CPU alone: of an accelerator's it says nothing.
    """
    return PEAKS if device == "cpu" else DEVICE_PEAKS


def peak_memory(found: Mapping[str, V], device: str) -> V | None:
    """Return the peak memory on that kind of device among figures by name, in bytes; None where there is none."""
    return next((found[name] for name in memory_figures(device) if name in found), None)
