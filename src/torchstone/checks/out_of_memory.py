"""A Case that ran out of memory: what fitted, and what to type to make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.extend import Check
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Case, Task
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.run import Run
from torchstone.terms.trial import Status


class OutOfMemory:
    """Fires on a Case with a trial that ran out of memory; the advice leaves out what is in use already."""

    describes = "a trial that ran out of memory"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield one warning a Case."""
        short = {t.case_id for t in run.trials if t.outcome.status == Status.OUT_OF_MEMORY}
        good = {t.case_id for t in run.trials if t.outcome.status == Status.OK}
        for case in run.head.plan.cases:
            if (case_id := case.case_id) in short:
                fitted = _largest_that_fitted(case, [c for c in run.head.plan.cases if c.case_id in good - short])
                message = f"batch_size {case.configuration.get('batch_size')} ran out of memory{fitted}"
                yield Finding("out_of_memory", Severity.WARNING, message, _advice(case), case_id)


def _largest_that_fitted(case: Case, fitting: list[Case]) -> str:
    sizes = [c.configuration.get("batch_size") for c in fitting if c.workload == case.workload]
    numbers = [size for size in sizes if isinstance(size, int)]
    return f"; {max(numbers)} fitted" if numbers else ""


def _advice(case: Case) -> str:
    """Seed S2-43's ladder: halve the batch, mixed precision, accumulation; checkpointing before a smaller model."""
    configuration: Mapping[str, Scalar] = case.configuration
    size = configuration.get("batch_size")
    rungs = [f"--axis batch_size={size // 2}"] if isinstance(size, int) and size > 1 else []
    if configuration.get("precision") in ("fp32", "tf32"):
        rungs.append("--axis precision=bf16")
    if case.workload.task == Task.TRAIN:
        if isinstance(size, int) and size > 1:
            rungs.append(f"batch_size={size // 2} with grad_accumulation=2 for the same effective batch")
        if not configuration.get("gradient_checkpointing"):
            rungs.append("--axis gradient_checkpointing=true")
    return "try " + ", then ".join(rungs) if rungs else "a smaller model, or a device with more memory"


PLUGIN: Check = OutOfMemory()
