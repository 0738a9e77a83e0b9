"""torchstone: how fast, lean and costly a neural network really is on your hardware.

    torchstone.measure(module, batch)      a module at hand → a RunSummary, and a record
    torchstone.window("train")             a window around your own loop
    torchstone.UsageError, MissingError    what these raise for a wrong request

The command line does more, in fresh processes: `torchstone --help`. Importing this package does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchstone.errors import MissingError, TorchstoneError, Unsupported, UsageError

if TYPE_CHECKING:
    from torchstone.in_process.module import measure
    from torchstone.in_process.window import Window
    from torchstone.in_process.window import Window as window  # noqa: N813  users write `with torchstone.window(…)`
    from torchstone.summary import RunSummary

__all__ = ["MissingError", "RunSummary", "TorchstoneError", "Unsupported", "UsageError", "Window", "measure", "window"]

_PLACES = {
    "measure": ("torchstone.in_process.module", "measure"),
    "window": ("torchstone.in_process.window", "Window"),
    "Window": ("torchstone.in_process.window", "Window"),
    "RunSummary": ("torchstone.summary", "RunSummary"),
}


def __getattr__(name: str) -> Any:
    """Import what the API offers when it is asked for: `import torchstone` alone must cost nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'torchstone' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
