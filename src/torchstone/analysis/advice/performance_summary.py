"""The summary of a run's trainings (core/schema/performance_summary.py), from its Cases as they are read."""

from __future__ import annotations

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.performance_summary import PerformanceSummary, performance_summaries


def performance_summary(run: RunSummary) -> tuple[PerformanceSummary, ...]:
    """Return the summary of each group of trainings that has a throughput."""
    diverged = {case.case_id for case in run.cases if any(f.check == "loss_diverged" for f in case.findings)}
    return performance_summaries(map(_row, run.cases), diverged)


def _row(case: CaseSummary) -> dict[str, Scalar]:
    workload = case.workload
    return {
        "task": str(workload.task), "model": workload.model, "dataset": workload.data, "item": workload.item,
        "device": str(case.placement), "case_id": case.case_id, **case.configuration,
        **{name: found.value for name, found in case.estimates.items()},
    }  # fmt: skip
