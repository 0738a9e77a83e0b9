"""The accelerators that this process has initialised, whichever torch calls the current one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def awake() -> Iterator[tuple[str, Any]]:
    """Yield (kind, module of torch) of the accelerators in use, without initialising any."""
    import torch

    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_initialized():
            yield kind, module
    if torch.backends.mps.is_available():  # it has nothing to initialise
        yield "mps", torch.mps
