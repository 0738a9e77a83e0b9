"""torchstone: how fast, lean and costly a neural network really is on your hardware.

    torchstone.measure(module, batch)           a module at hand, or any DataLoader → a RunSummary, and a record
    torchstone.window("train")                  a window around your own loop
    torchstone.Diagnostics(model, loss, opt)    one model over batch sizes and devices: rows, pictures, a report
    torchstone.benchmark(model, …)              what `torchstone run` does: fresh processes, a record, a table
    torchstone.register_model(name, loader)     a name for a loader of yours
    torchstone.UsageError, MissingError         what these raise for a wrong request

The command line does more: `torchstone --help`. Importing this package does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchstone.errors import MissingError, TorchstoneError, Unsupported, UsageError

if TYPE_CHECKING:
    from torchstone.diagnostics.diagnosis import Diagnostics, run_kaggle_analysis
    from torchstone.diagnostics.utilization import analyze_gpu_utilization
    from torchstone.in_process.benchmarking import Benchmark, benchmark
    from torchstone.in_process.module import measure
    from torchstone.in_process.registered import register_model
    from torchstone.in_process.window import Window
    from torchstone.in_process.window import Window as window  # noqa: N813  users write `with torchstone.window(…)`
    from torchstone.summary import RunSummary
    from torchstone.terms.procedure import Procedure

__all__ = [
    "Benchmark", "Diagnostics", "MissingError", "Procedure", "RunSummary", "TorchstoneError", "Unsupported",
    "UsageError", "Window", "analyze_gpu_utilization", "benchmark", "measure", "register_model", "run_kaggle_analysis",
    "window",
]  # fmt: skip

_PLACES = {
    "measure": ("torchstone.in_process.module", "measure"),
    "window": ("torchstone.in_process.window", "Window"),
    "Window": ("torchstone.in_process.window", "Window"),
    "benchmark": ("torchstone.in_process.benchmarking", "benchmark"),
    "Benchmark": ("torchstone.in_process.benchmarking", "Benchmark"),
    "register_model": ("torchstone.in_process.registered", "register_model"),
    "Diagnostics": ("torchstone.diagnostics.diagnosis", "Diagnostics"),
    "run_kaggle_analysis": ("torchstone.diagnostics.diagnosis", "run_kaggle_analysis"),
    "analyze_gpu_utilization": ("torchstone.diagnostics.utilization", "analyze_gpu_utilization"),
    "Procedure": ("torchstone.terms.procedure", "Procedure"),
    "RunSummary": ("torchstone.summary", "RunSummary"),
}


def __getattr__(name: str) -> Any:
    """Import what the API offers when it is asked for: `import torchstone` alone must cost nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'torchstone' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
