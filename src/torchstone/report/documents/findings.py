"""Findings and failures below the tables: why a number should be doubted, once each, with the advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.advice.grouping import groups, on_devices_here, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Finding, Severity, Verdict
from torchstone.core.schema.training import Training
from torchstone.core.schema.trial import Outcome, Reason, Status
from torchstone.report.document import Column, Document, Doubt, Part, Role, Section, Table, Text, paragraphs
from torchstone.storage.query import TrialRow

_MOST = 8  # failures, and findings, that are shown at once
_MANY_ALIKE = 12
_WAYS = ("status", "why", "wrong", "during")  # what tells ways to fail of one reason apart
_WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_CAUSES = ("neighbours", "steal", "other_processes", "throttled", "shared_cores", "slow_rank")


def finding_parts(run: RunSummary, *, every: bool = False) -> Iterator[Part]:
    """Yield what failed, and why Cases are in doubt: a Doubt for each kind of finding; with `every`, for each one."""
    names, all_of_it = labels(run.cases), f"torchstone show {run.run_id} --full"
    failures = paragraphs(list(dict.fromkeys(_every_failure(run, names) if every else _failures(run, names))))
    found = tuple(doubts(run, names, least=Severity.INFO if every else Severity.WARNING, apart=every))
    most = max(len(failures), len(found)) if every else _MOST
    yield from failures[:most]
    if rest := failures[most:]:
        yield Section(f"{len(rest)} more failure types", rest, folded=True, how=all_of_it)
    yield from found[:most]
    if more := found[most:]:
        yield Section(f"{len(more)} more findings", more, folded=True, how=all_of_it)


def _failures(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    """One line for each way to fail, with how many Cases.

    Repetitions that were skipped because the Case had failed before have no line.
    """
    seen: dict[tuple[object, ...], dict[str, Outcome]] = {}
    for case in on_devices_here(run):  # of the other devices, the answer tells
        ends = {trial.outcome.status: trial.outcome for trial in reversed(_failed(case))}
        if len(ends) > 1:
            ends.pop(Status.SKIPPED, None)
        for outcome in reversed(ends.values()):
            seen.setdefault(_way(outcome), {}).setdefault(names[case.case_id], outcome)
    for cases in seen.values():
        name, outcome = next(iter(cases.items()))
        more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
        yield f"{name}{more}: {outcome.status}: {outcome.message or ''}"


def _way(outcome: Outcome) -> tuple[object, ...]:
    """Return the way to fail: a reason, with the values that are no quantities; where none is known, the words.

    A lack of memory is one way, whatever was to be allocated.
    """
    is_told = outcome.reason not in (None, Reason.IN_LOADER) or outcome.status == Status.OUT_OF_MEMORY
    if not is_told:  # anything may have been raised
        return outcome.status, outcome.reason, outcome.message
    return outcome.status, outcome.reason, *(outcome.values.get(name) for name in _WAYS)


def _every_failure(run: RunSummary, names: Mapping[str, str]) -> Iterator[str]:
    for case in run.cases:
        yield from (f"{names[case.case_id]}: {t.outcome.status}: {t.outcome.message or ''}" for t in _failed(case))


def _failed(case: CaseSummary) -> list[TrialRow]:
    return [trial for trial in case.trials if trial.outcome.status != Status.OK]


def doubts(
    run: RunSummary, names: Mapping[str, str], *, least: Severity = Severity.INFO, apart: bool = False
) -> Iterator[Doubt]:
    """Yield what the checks found, errors and causes first: one Doubt for all Cases with a finding of a kind.

    `least`: of the Cases' findings; those of the run are told whatever they are. `apart`: one for each Case, unless
    more than a dozen have one: 336 lines of one kind hide the ones beside them.
    """
    kinds: dict[tuple[object, ...], list[tuple[Finding, str | None]]] = {}
    told = _WORST_FIRST[: _WORST_FIRST.index(least) + 1]
    every = [
        (finding, case.case_id)
        for case in run.cases
        for finding in case.findings
        # Of a training the answer says that it has no interval.
        if finding.severity in told and (apart or finding.check != "few_trials" or not isinstance(run.answer, Training))
    ]
    for finding, case_id in (*every, *((finding, None) for finding in run.findings)):
        kind = (finding.severity, finding.check, finding.reason, finding.values.get("figure"))
        kinds.setdefault(kind, []).append((finding, case_id))
    for seen in sorted(kinds.values(), key=_order):
        groups = [[one] for one in seen] if apart and len(seen) <= _MANY_ALIKE else [seen]
        for group in groups:
            finding = group[0][0]
            ids = dict.fromkeys(case_id for _, case_id in group if case_id is not None)
            who = _who([names[case_id] for case_id in ids], len(run.cases))
            yield Doubt(finding.severity, f"{finding.check}: {who}", finding.message, finding.advice, finding)


def _order(seen: Sequence[tuple[Finding, str | None]]) -> tuple[int, bool]:
    """Sort errors first, and of equal ones what disturbed the machine before what that did to figures."""
    finding = seen[0][0]
    return _WORST_FIRST.index(finding.severity), finding.check not in _CAUSES


def _who(names: Sequence[str], of: int) -> str:
    """Return whose finding it is: of these Cases, `of` so many that the run has; of the run, where there are none."""
    if not names:
        return "run"
    if len(names) == of > 1:
        return "both cases" if of == 2 else f"all {of} cases"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def labels(cases: Sequence[CaseSummary]) -> dict[str, str]:
    """Return a few words for each Case, by its id: task, model, batch size, and the other axes that vary."""
    found: dict[str, str] = {}
    for group in groups(cases):
        axes = varying_axes(group)
        for case in group:
            values = (f"{axis} {case.configuration.get(axis)}" for axis in axes)
            found[case.case_id] = ", ".join((f"{case.workload.task} {model_name(case.workload.model)}", *values))
    return found


# ── the page of `check` ─────────────────────────────────────────────────────────────────────────────────────


_MOST_CASES = 12
_VERDICTS = (Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID)


def check_document(checked: Sequence[RunSummary]) -> Document:
    """Return the verdicts of every run, the worst first; of several runs, how many of all come before."""
    if not checked:
        return Document("check", ())
    if len(checked) == 1:
        return Document(checked[0].name, tuple(_run(checked[0])))
    every = [case for summary in checked for case in summary.cases]
    whole = Text(f"{len(checked)} runs: {_counted(every)}", Role.HEADLINE)
    return Document("check", (whole, *(Section("", tuple(_run(one))) for one in checked)))


def _counted(cases: Sequence[CaseSummary]) -> str:
    counts = Counter(case.verdict for case in cases)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict]) or "no cases"


def _run(summary: RunSummary) -> Iterator[Part]:
    where = f"{summary.name}: run {summary.run_id}, {Path(summary.record).name}"
    yield Text(f"{where}: {_counted(summary.cases)}", Role.HEADLINE)
    names = labels(summary.cases)
    if summary.cases:
        yield _verdicts(summary.cases, names)
    alike, each = (tuple(doubts(summary, names, apart=apart)) for apart in (False, True))
    yield from alike
    if len(each) > len(alike):
        yield Section("each finding with its own numbers", each, folded=True)


def _verdicts(cases: Sequence[CaseSummary], names: Mapping[str, str]) -> Table:
    ordered = sorted(cases, key=lambda case: _VERDICTS.index(case.verdict))
    columns = (
        Column("verdict", tuple(str(case.verdict) for case in ordered), left=True),
        Column("case", tuple(names[case.case_id] for case in ordered), left=True),
        Column("why", tuple(map(_why, ordered)), left=True),
    )
    return Table(columns, most=_MOST_CASES)


def _why(case: CaseSummary) -> str:
    checks = ", ".join(dict.fromkeys(f.check for f in case.findings if f.severity != Severity.INFO))
    failed = "" if any(t.outcome.status == Status.OK for t in case.trials) else "no successful trial"
    return checks or failed
