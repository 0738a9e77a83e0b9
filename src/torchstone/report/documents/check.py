"""What `check` says as a Document: whether to believe each Case, and below it each finding once with its Cases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.estimate import Finding, Severity, Verdict
from torchstone.core.schema.trial import Status
from torchstone.report.document import Column, Document, Doubt, Part, Role, Section, Table, Text
from torchstone.report.documents.findings import labels

_MOST_CASES = 12
_QUANTITY = re.compile(
    r"-?\d[\d.,]*(e[+-]?\d+)?( ([nµm]?s|min|[KMGT]?i?B|[kmµ]?[JW]|[kMG]?Hz|[MGTP]?FLOP(/s)?|%|×)\b)?"
)
_WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.INFO)
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
    alike, each = (tuple(_doubts(summary, names, key)) for key in (_without_quantities, _as_it_is))
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


def _as_it_is(message: str) -> str:
    return message


def _without_quantities(message: str) -> str:
    return _QUANTITY.sub("#", message)


def _doubts(summary: RunSummary, names: Mapping[str, str], key: Callable[[str], str]) -> Iterator[Doubt]:
    """Yield each check's finding with its Cases, errors first; messages of one key are one, told as in the first."""
    told: list[tuple[Finding, str | None, str]] = [
        (finding, case.case_id, key(finding.message)) for case in summary.cases for finding in case.findings
    ]
    told += [(finding, None, finding.message) for finding in summary.findings]
    found: dict[tuple[Severity, str, str], tuple[Finding, dict[str, None]]] = {}
    for finding, case_id, alike in told:
        _, where = found.setdefault((finding.severity, finding.check, alike), (finding, {}))
        if case_id is not None:
            where[case_id] = None
    for (severity, check, _), (first, where) in sorted(found.items(), key=lambda item: _WORST_FIRST.index(item[0][0])):
        who = _who([names[case_id] for case_id in where], len(summary.cases))
        yield Doubt(severity, f"{check}: {who}", first.message, first.advice)


def _who(names: Sequence[str], of: int) -> str:
    """Return whose finding it is: of these Cases, `of` so many that the run has; of the run, where there are none."""
    if not names:
        return "run"
    if len(names) == of > 1:
        return "both cases" if of == 2 else f"all {of} cases"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
