"""Findings and failures below the tables: why a number should be doubted, once each, with the advice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.trial import Status
from torchstone.report.document import Doubt, Part, Section, paragraphs
from torchstone.storage.query import TrialRow

_MOST = 8  # failures, and findings, that are shown at once
_MANY_ALIKE = 12
_NUMBER = re.compile(r"\d[\d.,]*")


def finding_parts(run: RunSummary, *, every: bool = False) -> Iterator[Part]:
    """Yield what failed, and why Cases are SUSPECT or INVALID: one Doubt a check; with `every` one a finding."""
    names, all_of_it = labels(run.cases), f"torchstone show {run.run_id} --full"
    failures = paragraphs(list(dict.fromkeys(_every_failure(run, names) if every else _failures(run, names))))
    doubts = tuple(dict.fromkeys(_each(run, names) if every else _grouped(run, names)))
    most = max(len(failures), len(doubts)) if every else _MOST
    yield from failures[:most]
    if rest := failures[most:]:
        yield Section(f"{len(rest)} more failure types", rest, folded=True, how=all_of_it)
    yield from doubts[:most]
    if more := doubts[most:]:
        yield Section(f"{len(more)} more findings", more, folded=True, how=all_of_it)


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
        yield from (f"{names[case.case_id]}: {t.outcome.status}: {t.outcome.message or ''}" for t in _failed(case))


def _failed(case: CaseSummary) -> list[TrialRow]:
    return [trial for trial in case.trials if trial.outcome.status != Status.OK]


def _more(several: Collection[object]) -> str:
    return f" (and {len(several) - 1} more)" if len(several) > 1 else ""


def _each(run: RunSummary, names: Mapping[str, str]) -> Iterator[Doubt]:
    """Yield one a finding; where more Cases than a dozen have one that differs in its numbers only, that of the first.

    336 lines of one kind hide the ones beside them; `torchstone check` has each.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for case in run.cases:
        for finding in case.findings:
            alike.setdefault(_kind(finding), []).append(names[case.case_id])
    for case in run.cases:
        for finding in case.findings:
            several = alike[_kind(finding)]
            if len(several) <= _MANY_ALIKE:
                yield _doubt(finding, names[case.case_id])
            elif several[0] == names[case.case_id]:
                yield _doubt(finding, f"{several[0]}{_more(several)}")
    yield from (_doubt(finding, "run") for finding in run.findings)


def _kind(finding: Finding) -> tuple[str, str]:
    return finding.check, _NUMBER.sub("#", finding.message)


def _grouped(run: RunSummary, names: Mapping[str, str]) -> Iterator[Doubt]:
    """Yield one a check that makes a Case doubtful, errors first: the Cases, what was seen in the first, the advice."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for case in run.cases:
        for finding in case.findings:
            if finding.severity != Severity.INFO:
                found.setdefault(finding.check, []).append((names[case.case_id], finding))
    for seen in sorted(found.values(), key=lambda seen: seen[0][1].severity != Severity.ERROR):
        name, first = seen[0]
        yield _doubt(first, f"{name}{_more(seen)}")
    yield from (_doubt(finding, "run") for finding in run.findings)


def _doubt(finding: Finding, subject: str) -> Doubt:
    return Doubt(finding.severity, subject, finding.message, finding.advice)


def labels(cases: Sequence[CaseSummary]) -> dict[str, str]:
    """Return a few words for each Case, by its id: task, model, batch size, and the other axes that vary."""
    found: dict[str, str] = {}
    for group in groups(cases):
        axes = varying_axes(group)
        for case in group:
            values = (f"{axis} {case.configuration.get(axis)}" for axis in axes)
            found[case.case_id] = ", ".join((f"{case.workload.task} {model_name(case.workload.model)}", *values))
    return found
