"""A Case that ran out of memory, or surely would have: what fitted, and what to type to make it fit."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.axis import DATALOADER_AXES
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial
from torchstone.plugins.checks._cases import setting, taken
from torchstone.plugins.checks._ladder import ladder
from torchstone.plugins.protocols import Check

# Settings beside which a batch needs what it needs, and the size of it.
_NO_MEMORY = ("grad_accumulation", "learning_rate", *DATALOADER_AXES)
_IN_LOADER = "DataLoader worker"


class OutOfMemory:
    """Fires on a Case with a trial that ran out of memory, or that was skipped because it would have."""

    describes = "a trial that ran out of memory, or was skipped because it was predicted to"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield one warning a Case."""
        every = list(taken(run))
        short = [(case_id, case, trial) for case_id, case, trials in every if (trial := _short(trials)) is not None]
        if not short:
            return
        fitted: dict[tuple[object, ...], dict[str, int]] = {}
        for case_id, case, trials in every:
            size = case.configuration.get("batch_size")
            if isinstance(size, int) and any(t.outcome.status == Status.OK for t in trials):
                fitted.setdefault(_but_for_size(case), {})[case_id] = size
        for case_id, case, trial in short:
            sizes = [size for other, size in fitted.get(_but_for_size(case), {}).items() if other != case_id]
            size = case.configuration.get("batch_size")
            skipped = trial.outcome.status == Status.SKIPPED
            what = f"was skipped: {trial.outcome.message}" if skipped else "ran out of memory"
            known = f"; {max(sizes)} fitted" if sizes else ""
            message = f"{'the case' if size is None else f'batch_size {size}'} {what}{known}"
            yield Finding("out_of_memory", Severity.WARNING, message, _advice(case, trial, run), case_id)


def _short(trials: tuple[Trial, ...]) -> Trial | None:
    """Return the first trial that ran out of memory, else the first that was skipped for want of it."""
    by_status = {t.outcome.status: t for t in reversed(trials)}
    if Status.TIMED_OUT in by_status or Status.UNSUPPORTED in by_status:
        by_status.pop(Status.SKIPPED, None)  # skipped for having ended so before
    return by_status.get(Status.OUT_OF_MEMORY) or by_status.get(Status.SKIPPED)


def _but_for_size(case: Case) -> tuple[object, ...]:
    """Return what two Cases share of which one tells what fits the other: in bf16, more does."""
    rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k not in _NO_MEMORY))
    return (str(case.workload.canonical()), str(case.placement), rest)


def _advice(case: Case, trial: Trial, run: Run) -> str:
    workers = case.configuration.get("num_workers")
    if _IN_LOADER in (trial.outcome.message or "") and isinstance(workers, int) and workers > 1:
        fewer = setting(run, "num_workers", workers // 2)
        return f"each DataLoader worker needs host memory: {fewer}; {ladder(case, run)}"
    return ladder(case, run)


PLUGIN: Check = OutOfMemory()
