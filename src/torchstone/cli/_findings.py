"""Findings and failures below a table: what a number should not be believed for, once each, with the advice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.cli._table import plain
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.trial import Status
from torchstone.storage.query import TrialRow

_MOST_LINES = 8
_NUMBER = re.compile(r"\d[\d.,]*")


def print_findings(run: RunSummary, *, every: bool = False) -> None:
    """Print why Cases are SUSPECT or INVALID: one line a check, or one a finding with `every`."""
    names = labels(run.cases)
    failures = list(dict.fromkeys(_every_failure(run, names) if every else _failures(run, names)))
    lines = list(dict.fromkeys(_lines(run, names) if every else _grouped(run, names)))
    if failures or lines:
        print()
    if not every and len(failures) > _MOST_LINES:
        failures[_MOST_LINES:] = [f"{len(failures) - _MOST_LINES} more ways not to end well"]
    for line in (*failures, *lines[: None if every else _MOST_LINES]):
        print(plain(line))
    if not every and (len(lines) > _MOST_LINES or any(case.findings for case in run.cases)):
        print(plain(f"each finding: torchstone show {run.run_id} --full"))


def _failures(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    """One line for each way to fail, with how many Cases: messages that differ only in their numbers are one way.

    Repetitions that were skipped because the Case had failed before have no line.
    """
    seen: dict[tuple[Status, str], dict[str, str]] = {}
    for case in on_devices_here(run):  # of the other devices, the answer tells
        ends = {trial.outcome.status: trial.outcome.message or "" for trial in reversed(_failed(case))}
        if len(ends) > 1:
            ends.pop(Status.SKIPPED, None)
        for status, message in reversed(ends.items()):
            seen.setdefault((status, _NUMBER.sub("#", message)), {}).setdefault(names[case.case_id], message)
    for (status, _), cases in seen.items():
        name, message = next(iter(cases.items()))
        yield f"{name}{_more(cases)}: {status}: {message}"


def _every_failure(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    for case in run.cases:
        yield from (f"{names[case.case_id]}: {t.outcome.status}: {t.outcome.message}" for t in _failed(case))


def _failed(case: CaseSummary) -> list[TrialRow]:
    return [trial for trial in case.trials if trial.outcome.status != Status.OK]


def _more(several: Collection[object]) -> str:
    return f" (and {len(several) - 1} more)" if len(several) > 1 else ""


def _lines(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    for case in run.cases:
        for finding in case.findings:
            yield f"{finding.severity} {names[case.case_id]}: {finding.message}. {finding.advice}"
    for finding in run.findings:
        yield f"{finding.severity} run: {finding.message}. {finding.advice}"


def _grouped(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    """One line a check that makes a Case doubtful, errors first: the Cases, what was seen in the first, the advice."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for case in run.cases:
        for finding in case.findings:
            if finding.severity != Severity.INFO:
                found.setdefault(finding.check, []).append((names[case.case_id], finding))
    for seen in sorted(found.values(), key=lambda seen: seen[0][1].severity != Severity.ERROR):
        name, first = seen[0]
        yield f"{first.severity} {name}{_more(seen)}: {first.message}. {first.advice}"
    for finding in run.findings:
        yield f"{finding.severity} run: {finding.message}. {finding.advice}"


def labels(cases: Sequence[CaseSummary]) -> dict[str, str]:
    """Return a few words for each Case, by its id: task, model, batch size, and the other axes that vary."""
    found: dict[str, str] = {}
    for group in groups(cases):
        axes = varying_axes(group)
        for case in group:
            model = model_name(case.workload.model)
            values = ", ".join(f"{axis} {case.configuration.get(axis)}" for axis in axes)
            found[case.case_id] = f"{case.workload.task} {model}, {values}"
    return found
