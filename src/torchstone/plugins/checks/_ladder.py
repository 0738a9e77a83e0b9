"""Flags that reduce the memory of a Case, cheapest first, without those in use already."""

from __future__ import annotations

from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import setting


def ladder(case: Case, run: Run) -> str:
    """Return advice for less memory: half the batch, bf16, accumulation, checkpointing, then a smaller model."""
    configuration = case.configuration
    size, pulls = configuration.get("batch_size"), configuration.get("grad_accumulation")
    rungs = [setting(run, "batch_size", size // 2)] if isinstance(size, int) and size > 1 else []
    if configuration.get("precision") in ("fp32", "tf32"):
        rungs.append(setting(run, "precision", "bf16"))
    if case.workload.task == Task.TRAIN:
        if isinstance(size, int) and size > 1:
            twice = 2 * (pulls if isinstance(pulls, int) and pulls > 0 else 1)
            rungs.append(f"batch_size={size // 2} with grad_accumulation={twice} for the same effective batch")
        if not configuration.get("gradient_checkpointing"):
            rungs.append(setting(run, "gradient_checkpointing", "true"))
    smaller = "a smaller model (less depth or width)"
    return "try " + ", then ".join([*rungs, smaller]) if rungs else f"{smaller}, or a device with more memory"
