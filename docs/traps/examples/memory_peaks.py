"""What is allocated after a step is not what it needs, and what tensors need is not what the card must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def wrong(step: Callable[[], object], memory: Any) -> int:
    """Return the bytes that are allocated when the step has ended: its activations are gone."""
    step()
    allocated: int = memory.memory_allocated()
    return allocated


def wrong_too(step: Callable[[], object], memory: Any) -> int:
    """Return the highest peak since the process began: perhaps of a larger batch, which ran out of memory."""
    step()
    allocated: int = memory.max_memory_allocated()
    return allocated


def right(step: Callable[[], object], memory: Any) -> tuple[int, int]:
    """Return the peak of the step: bytes in tensors, bytes taken from the card for them. `memory`: torch.cuda."""
    memory.empty_cache()
    memory.reset_peak_memory_stats()
    step()
    return memory.max_memory_allocated(), memory.max_memory_reserved()
