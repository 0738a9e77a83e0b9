"""Everything that is read from a run beside its numbers, as `--json` gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.advice.analyses import Analysis, analyses
from torchstone.analysis.advice.convergence import Convergence, convergence
from torchstone.analysis.advice.curves import advise, curves, ran_out, read_memory, read_phases, read_single_items
from torchstone.analysis.advice.devices import contrasts_with_cpu
from torchstone.analysis.advice.grouping import groups, over_devices
from torchstone.analysis.advice.trainings import read_curves
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.advice import Advice, Remedy, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.run_document import PerformanceSummary, performance_summaries


def performance_summary(run: RunSummary) -> tuple[PerformanceSummary, ...]:
    """Return the summary of each group of trainings that has a throughput."""
    diverged = {case.case_id for case in run.cases if any(f.check == "loss_diverged" for f in case.findings)}
    return performance_summaries(map(_row, run.cases), diverged)


def _row(case: CaseSummary) -> dict[str, Scalar]:
    workload = case.workload
    return {
        "task": str(workload.task),
        "model": workload.model,
        "dataset": workload.data,
        "item": workload.item,
        "device": str(case.placement),
        "case_id": case.case_id,
        **case.configuration,
        **{name: found.value for name, found in case.estimates.items()},
    }


class Said(msgspec.Struct, frozen=True):
    """One advice, and of which Case: its phases, its memory, its curve over batch sizes, or its device."""

    about: str
    case_id: str
    seen: tuple[Statement, ...]
    causes: tuple[Statement, ...]
    remedies: tuple[Remedy, ...]


class Insights(msgspec.Struct, frozen=True):
    """What measured Cases say: advice on each, trainings beside each other, a sweep in few numbers, and cut by axis."""

    advice: tuple[Said, ...]
    convergence: tuple[Convergence, ...]
    performance_summary: tuple[PerformanceSummary, ...]
    performance_analysis: tuple[Analysis, ...]


def readings(run: RunSummary) -> Insights:
    """Return all readings of a run. Its record is read where losses are compared; raises UsageError if it cannot be."""
    advice = [said for cases in groups(run.cases) for said in _advice(run, cases)]
    for cases in over_devices([case for case in run.cases if case.verdict != Verdict.INVALID]):
        advice += [_insight("device", case, one) for case, one in contrasts_with_cpu(cases)]
    told = convergence(run, read_curves(run))
    return Insights(tuple(advice), tuple(told), performance_summary(run), tuple(analyses(run)))


def _advice(run: RunSummary, cases: Sequence[CaseSummary]) -> Iterator[Said]:
    believed = [case for case in cases if case.verdict != Verdict.INVALID]
    for case in believed:
        for one in read_single_items(case, run):
            yield _insight("batch_size", case, one)
        for one in read_phases(case, run):
            yield _insight("phases", case, one)
        for one in read_memory(case, run):
            yield _insight("memory", case, one)
    for case, curve in curves(believed, run.machine):
        for one in advise(curve, case.configuration, ran_out(case, run.cases)):
            yield _insight("batch_size", case, one)


def _insight(about: str, case: CaseSummary, one: Advice) -> Said:
    return Said(about, case.case_id, one.seen, one.causes, one.remedies)
