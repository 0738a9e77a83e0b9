"""Findings and failures below a table: what a number should not be believed for, once each, with the advice."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.cli._table import plain
from torchstone.summary import CaseSummary, RunSummary
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.trial import Status

_MOST_LINES = 8


def print_findings(run: RunSummary, *, every: bool = False) -> None:
    """Print why Cases are SUSPECT or INVALID: one line a check, or one a finding with `every`."""
    lines = list(dict.fromkeys(_lines(run) if every else _grouped(run)))
    if lines:
        print()
    for line in lines[: None if every else _MOST_LINES]:
        print(plain(line))
    if not every and (len(lines) > _MOST_LINES or any(case.findings for case in run.cases)):
        print(plain(f"each finding: torchstone show {run.run_id} --full"))


def _failures(run: RunSummary) -> Iterator[str]:
    for case in run.cases:
        for trial in case.trials:
            if trial.outcome.status != Status.OK:
                yield f"{label(case)}: {trial.outcome.status}: {trial.outcome.message}"


def _lines(run: RunSummary) -> Iterator[str]:
    yield from _failures(run)
    for case in run.cases:
        for finding in case.findings:
            yield f"{finding.severity} {label(case)}: {finding.message}. {finding.advice}"
    for finding in run.findings:
        yield f"{finding.severity} run: {finding.message}. {finding.advice}"


def _grouped(run: RunSummary) -> Iterator[str]:
    """One line a check that makes a Case doubtful: the Cases, what was seen in the first, and the advice."""
    yield from _failures(run)
    found: dict[str, list[tuple[str, Finding]]] = {}
    for case in run.cases:
        for finding in case.findings:
            if finding.severity != Severity.INFO:
                found.setdefault(finding.check, []).append((label(case), finding))
    for seen in found.values():
        name, first = seen[0]
        others = f" (and {len(seen) - 1} more)" if len(seen) > 1 else ""
        yield f"{first.severity} {name}{others}: {first.message}. {first.advice}"
    for finding in run.findings:
        yield f"{finding.severity} run: {finding.message}. {finding.advice}"


def label(case: CaseSummary) -> str:
    """Return a Case in a few words: task, model and batch size."""
    return f"{case.workload.task} {case.workload.model.rpartition(':')[2]} b{case.configuration.get('batch_size')}"
