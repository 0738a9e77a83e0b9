"""The peak memory of a step, told without taking it: how much at once, of what, and where in the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

# Of what the bytes at the peak are. activations: what the forward pass keeps for the backward pass, and what
# checkpointing computes again of it; of inference, all that the forward pass holds. temporaries: the rest.
KINDS = ("weights", "gradients", "optimizer", "activations", "inputs", "temporaries", "workspace")


class PeakMemory(msgspec.Struct, frozen=True):
    """The most bytes a device holds at once in a step whose optimizer has its state already, or gets it.

    `kinds`: of KINDS, the bytes at that moment; their sum is `allocated_bytes`. `phase`: forward, backward or
    optimizer. `reserved_bytes`: what a caching allocator takes from the device for it, with what it cannot use; None
    where there is none (CPU).
    """

    batch_size: int
    allocated_bytes: int
    kinds: Mapping[str, int]
    phase: str
    reserved_bytes: int | None = None


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
