"""bottleneck_report.md as a Document: what is wrong with one Case, what was tried, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.schema.diagnosis import Cause, Diagnosis, Tried
from torchstone.report.diagnosis_wording import (
    about_lines,
    answer_words,
    gain_words,
    in_own_code,
    limit_words,
    memory_words,
    open_remedies,
)
from torchstone.report.document import Column, Command, Document, Part, Role, Section, Table, Text, paragraphs
from torchstone.workflows.diagnose.ranking import refuted

FILE = "bottleneck_report.md"


def bottleneck_report(diagnosis: Diagnosis) -> Document:
    """Return the report on causes and what-ifs."""
    return Document(f"Bottleneck report: {diagnosis.about}", tuple(_parts(diagnosis)))


def _parts(diagnosis: Diagnosis) -> Iterator[Part]:
    yield Text(answer_words(diagnosis), Role.HEADLINE)
    yield from paragraphs(tuple(about_lines(diagnosis)))
    for number, cause in enumerate(diagnosis.causes, start=1):
        no = " (refuted: what would help then does not)" if refuted(cause, diagnosis.tried) else ""
        yield Section(f"{number}. {cause.title}{no}", tuple(_cause(cause, diagnosis.tried)))
    if diagnosis.tried:
        yield Section("What would help", (_what_ifs(diagnosis),))
    if diagnosis.command is not None:
        yield Section("What to type", (Command(diagnosis.command),))
    if diagnosis.limits:
        limits = [f"{line}." for line in diagnosis.limits]
        yield Section("How far from the hardware", paragraphs(limits, Role.DETAIL))


def _cause(cause: Cause, tried: Sequence[Tried]) -> Iterator[Part]:
    yield Text(f"{cause.kind} bottleneck; {limit_words(cause)}.")
    yield from paragraphs([f"{line}." for line in cause.evidence], Role.DETAIL)
    for place in cause.where:
        yield Text(f"{place.file}:{place.line}, {100 * place.share:.0f} % of the step: {place.code}", Role.DETAIL)
    if cause.usual:
        yield Text(f"Usual causes: {', '.join(cause.usual)}.", Role.DETAIL)
    if remedies := open_remedies(cause, tried):
        yield Text(f"Not measured: {'; '.join(remedies)}.", Role.DETAIL)
    yield from (Text(f"In code of your own: {how}.", Role.DETAIL) for how in in_own_code(cause, tried))


def _what_ifs(diagnosis: Diagnosis) -> Table:
    shown = [*diagnosis.tried]
    if diagnosis.applied is not None and diagnosis.applied not in shown:
        shown.append(diagnosis.applied)
    names = [f"{one.what_if.name}{' (the most a loader can gain)' * one.what_if.ceiling}" for one in shown]
    return Table((
        Column("what if", tuple(names), left=True),
        Column("times as fast", tuple(gain_words(one) for one in shown), left=True),
        Column("peak memory", tuple(memory_words(one) for one in shown), 2, left=True),
        Column("what is computed", tuple(one.loss or "–" for one in shown), 3, left=True),
        Column("", tuple(one.message or "" for one in shown), 1, left=True),
    ))  # fmt: skip
