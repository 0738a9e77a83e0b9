"""A Case that ran out of memory, or surely would have: what fitted, and what to type to make it fit."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.checks._ladder import ladder
from torchstone.extend import Check
from torchstone.terms.case import Case
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.run import Run
from torchstone.terms.trial import Status, Trial


class OutOfMemory:
    """Fires on a Case with a trial that ran out of memory, or that was skipped because it would have."""

    describes = "a trial that ran out of memory, or was skipped because it would"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield one warning a Case."""
        good = {t.case_id for t in run.trials if t.outcome.status == Status.OK}
        for case in {case.case_id: case for case in run.head.plan.cases}.values():
            trial = _short(run.of_case(case.case_id))
            if trial is not None:
                fitting = [c for c in run.head.plan.cases if c.case_id in good - {case.case_id}]
                size = f"batch_size {case.configuration.get('batch_size')}"
                skipped = trial.outcome.status == Status.SKIPPED
                what = f"was skipped: {trial.outcome.message}" if skipped else "ran out of memory"
                message = f"{size} {what}{_largest_that_fitted(case, fitting)}"
                yield Finding("out_of_memory", Severity.WARNING, message, _advice(case, trial), case.case_id)


def _short(trials: tuple[Trial, ...]) -> Trial | None:
    """Return the first trial that ran out of memory, else the first that was skipped for want of it."""
    by_status = {t.outcome.status: t for t in reversed(trials)}
    if Status.TIMED_OUT in by_status or Status.UNSUPPORTED in by_status:
        by_status.pop(Status.SKIPPED, None)  # skipped for having ended so before
    return by_status.get(Status.OUT_OF_MEMORY) or by_status.get(Status.SKIPPED)


def _largest_that_fitted(case: Case, fitting: list[Case]) -> str:
    sizes = [c.configuration.get("batch_size") for c in fitting if c.workload == case.workload]
    numbers = [size for size in sizes if isinstance(size, int)]
    return f"; {max(numbers)} fitted" if numbers else ""


def _advice(case: Case, trial: Trial) -> str:
    workers = case.configuration.get("num_workers")
    if "of the loader" in (trial.outcome.message or "") and isinstance(workers, int) and workers > 1:
        return f"each process of the loader needs memory of the host: --axis num_workers={workers // 2}; {ladder(case)}"
    return ladder(case)


PLUGIN: Check = OutOfMemory()
