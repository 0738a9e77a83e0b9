"""The peak memory of a step, told without taking it: how much at once, of what, and where in the step."""

from __future__ import annotations

from collections.abc import Mapping

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
