"""torchstone: measures speed, memory and energy of PyTorch training and inference.

    torchstone.measure(module, batch)           a module at hand, or any DataLoader → a RunSummary, and a record
    torchstone.measure(function, *arguments)    any function, in fresh processes where they can import it → the same
    torchstone.window("train")                  a window around your own loop
    torchstone.Diagnostics(model, loss, opt)    one model over batch sizes and devices: rows, pictures, a report
    torchstone.benchmark(model, …)              what `torchstone run` does: fresh processes, a record, a table
    torchstone.register_model(name, loader)     a name for a loader of yours
    torchstone.UsageError, MissingError         what these raise for a wrong request

The command line does more: `torchstone --help`. Importing this package does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchstone.core.errors import MissingError, TorchstoneError, Unsupported, UsageError

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary
    from torchstone.api.benchmarking import Benchmark, benchmark, register_model
    from torchstone.api.diagnostics import Diagnostics, analyze_gpu_utilization, run_kaggle_analysis
    from torchstone.api.module import measure
    from torchstone.api.window import Window
    from torchstone.api.window import Window as window  # noqa: N813  users write `with torchstone.window(…)`
    from torchstone.core.schema.procedure import Procedure

__all__ = [
    "Benchmark",
    "Diagnostics",
    "MissingError",
    "Procedure",
    "RunSummary",
    "TorchstoneError",
    "Unsupported",
    "UsageError",
    "Window",
    "analyze_gpu_utilization",
    "benchmark",
    "measure",
    "register_model",
    "run_kaggle_analysis",
    "window",
]

_PLACES = {
    "measure": ("torchstone.api.module", "measure"),
    "window": ("torchstone.api.window", "Window"),
    "Window": ("torchstone.api.window", "Window"),
    "benchmark": ("torchstone.api.benchmarking", "benchmark"),
    "Benchmark": ("torchstone.api.benchmarking", "Benchmark"),
    "register_model": ("torchstone.api.benchmarking", "register_model"),
    "Diagnostics": ("torchstone.api.diagnostics", "Diagnostics"),
    "run_kaggle_analysis": ("torchstone.api.diagnostics", "run_kaggle_analysis"),
    "analyze_gpu_utilization": ("torchstone.api.diagnostics", "analyze_gpu_utilization"),
    "Procedure": ("torchstone.core.schema.procedure", "Procedure"),
    "RunSummary": ("torchstone.analysis.summary", "RunSummary"),
}


_CALLED_ELSEWHERE = {  # by documents that people come from
    "PerformanceDiagnostics": "Diagnostics",
    "register_custom_model": "register_model",
    "run_training_benchmark": "benchmark",
}


def __getattr__(name: str) -> Any:
    """Import what the API offers when it is asked for: `import torchstone` alone must cost nothing."""
    if name in _CALLED_ELSEWHERE:
        # ImportError: what `from torchstone import …` raises for another error says nothing but the old name
        raise ImportError(f"{name} is torchstone.{_CALLED_ELSEWHERE[name]} now")
    if name not in _PLACES:
        raise AttributeError(f"module 'torchstone' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
