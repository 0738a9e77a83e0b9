"""What `check` says as a Document: whether to believe each Case, and below it each finding once with its Cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.core.schema.trial import Status
from torchstone.report.document import Column, Document, Part, Role, Section, Table, Text
from torchstone.report.documents.findings import doubts, labels

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
