"""Evidence from a record alone, for a Case that cannot be measured again here."""

from __future__ import annotations

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.case import Case
from torchstone.core.schema.trial import Status
from torchstone.workflows.diagnose.evidence import Evidence


def recorded_evidence(run: RunSummary, case: CaseSummary) -> Evidence:
    """Return what the record says of a Case. Host profile and parts alone are not in it."""
    facts = next((trial.facts for trial in case.trials if trial.outcome.status == Status.OK), {})
    larger = _larger(run, case)
    cores = facts.get("logical_cores")
    return Evidence(
        Case(case.workload, case.configuration, case.placement),
        {name: found.value for name, found in case.estimates.items()}, facts,
        run.machine.device(case.placement.device, case.placement.index),
        cores if isinstance(cores, int) else run.machine.host.logical_cores, run.procedure.heap, larger=larger,
    )  # fmt: skip


def _larger(run: RunSummary, case: CaseSummary) -> tuple[int, float] | None:
    """Return (batch size, step in s) of the nearest recorded Case with a batch at least twice as large, else alike."""
    size = case.configuration.get("batch_size")
    found = []
    for other in run.cases:
        larger, rate = other.configuration.get("batch_size"), other.estimates.get("throughput")
        same = {**other.configuration, "batch_size": size} == dict(case.configuration)
        alike = same and other.workload == case.workload and other.placement == case.placement
        if not alike or rate is None or rate.value <= 0.0 or not isinstance(size, int) or not isinstance(larger, int):
            continue
        if larger >= 2 * size > 0:
            accumulation = other.configuration.get("grad_accumulation")
            times = accumulation if isinstance(accumulation, int) and accumulation > 0 else 1
            found.append((larger, larger * times / rate.value))
    return min(found, default=None)
