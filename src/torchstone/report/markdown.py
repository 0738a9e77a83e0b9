"""Advice and findings as Markdown that nobody can smuggle anything into: what every written report shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice.advice import Advice
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.estimate import Finding, Severity


def bullet(advice: Advice, at: str = "") -> Iterator[str]:
    """Yield an advice as a bullet with its causes and remedies below. `at`: what goes before."""
    yield f"- {inline(at + advice.seen)}."
    if advice.causes:
        yield f"  - Usual causes: {inline(', '.join(advice.causes))}."
    if advice.remedies:
        yield f"  - Try: {inline('; '.join(advice.remedies))}."


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int = 0) -> Iterator[str]:
    """Yield a table; its first `left` columns are texts, the others numbers."""
    yield f"| {' | '.join(map(inline, titles))} |"
    yield f"|{'---|' * left}{'---:|' * (len(titles) - left)}"
    for row in rows:
        yield f"| {' | '.join(map(inline, row))} |"


def doubts(summary: RunSummary) -> Iterator[str]:
    """Say once what each check saw, and of how many cases."""
    found: dict[str, list[Finding]] = {}
    for finding in (*summary.findings, *(finding for case in summary.cases for finding in case.findings)):
        if finding.severity != Severity.INFO:
            found.setdefault(finding.check, []).append(finding)
    if found:
        yield from ("", "## What to doubt", "")
    for seen in found.values():
        more = f" (and in {len(seen) - 1} more cases)" if len(seen) > 1 else ""
        yield f"- {inline(seen[0].message)}{more}. {inline(seen[0].advice)}."


def inline(value: object) -> str:
    """Return text that cannot be taken for Markdown of ours: one line, no pipes, no tags."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return text.replace("|", "\\|").replace("<", "&lt;")
