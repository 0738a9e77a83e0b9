"""Whether a prepared model runs code of torch.compile: such a step is looked at otherwise than one of plain Python."""

from __future__ import annotations

from typing import Any


def is_compiled(prepared: Any) -> bool:
    """Say whether a step runs compiled code, which would be compiled again under a trace or a counter."""
    return any(type(value).__name__ == "OptimizedModule" for value in vars(prepared).values())
