"""The written reports: bottleneck_report.md, what is wrong and what was tried; performance_report.md, what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Case, Placement, Workload
from torchstone.report.diagnosis_wording import gain_words, in_own_code, limit_words, memory_words, open_remedies
from torchstone.report.markdown import bullet, doubts, inline, table
from torchstone.workflows.diagnose.diagnosis import Cause, Diagnosis, Tried
from torchstone.workflows.diagnose.observations import alike
from torchstone.workflows.diagnose.ranking import refuted

BOTTLENECKS, PERFORMANCE = "bottleneck_report.md", "performance_report.md"


def write_reports(folder: Path, diagnosis: Diagnosis, run: RunSummary, command: str | None) -> tuple[Path, Path]:
    """Write both into a folder and return their paths. `run`: where the Cases are; `command`: what to type.

    Raises MissingError where they cannot be written.
    """
    texts = {BOTTLENECKS: bottleneck_report(diagnosis, command), PERFORMANCE: performance_report(diagnosis, run)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as fault:
        raise MissingError(f"{folder}: the reports cannot be written: {fault.strerror}") from None
    return folder / BOTTLENECKS, folder / PERFORMANCE


def bottleneck_report(diagnosis: Diagnosis, command: str | None) -> str:
    """Return the report on causes and what-ifs."""
    lines = [f"# Bottleneck report: {inline(diagnosis.about)}", "", *_about(diagnosis)]
    for number, cause in enumerate(diagnosis.causes):
        no = " (refuted: what would help then does not)" if refuted(cause, diagnosis.tried) else ""
        lines += ["", f"## {number + 1}. {inline(cause.title)}{no}", "", *_cause(cause, diagnosis.tried)]
    lines += _what_ifs(diagnosis)
    if command is not None:
        lines += ["", "## What to type", "", "```", *command.splitlines(), "```"]
    if diagnosis.limits:
        lines += ["", "## How far from the hardware", "", *(f"- {inline(line)}." for line in diagnosis.limits)]
    return "\n".join(lines) + "\n"


def performance_report(diagnosis: Diagnosis, run: RunSummary) -> str:
    """Return the report on the recorded Cases: table, pattern, the three questions, the checklist, doubts."""
    case = _recorded(diagnosis.case, run)
    cases = alike(run, case) if case is not None else []
    lines = [f"# Performance report: {inline(diagnosis.about)}", "", *_about(diagnosis)]
    if cases:
        lines += ["", "## What was measured", "", *_cases(cases)]
    if diagnosis.pattern:
        lines += ["", "## What is seen", "", *(line for one in diagnosis.pattern for line in bullet(one))]
    if diagnosis.causes:
        first = diagnosis.causes[0]
        lines += ["", "## The bottleneck", "", f"{inline(first.title)} ({first.kind}). See {BOTTLENECKS}."]
    if diagnosis.questions:
        lines += ["", "## Slow training: three questions", "", *(f"- {inline(line)}." for line in diagnosis.questions)]
    if diagnosis.checklist:
        lines += ["", "## Before a long training", "", *(f"- {inline(line)}" for line in diagnosis.checklist)]
    return "\n".join([*lines, *doubts(run)]) + "\n"


def _recorded(case: Case, run: RunSummary) -> CaseSummary | None:
    """Return what a run has of a Case. It is diagnosed without its latency window: its mode may be another there."""
    found = [one for one in run.cases if _but_mode(one) == _but_mode(case)]
    return next((one for one in found if one.case_id == case.case_id), found[0] if found else None)


def _but_mode(one: Case | CaseSummary) -> tuple[Workload, Placement, Mapping[str, Scalar]]:
    return one.workload, one.placement, {axis: value for axis, value in one.configuration.items() if axis != "mode"}


def _about(diagnosis: Diagnosis) -> Iterator[str]:
    work = diagnosis.case.workload
    size = diagnosis.case.configuration.get("batch_size")
    yield f"{work.task} {inline(work.model)}, batch_size {size}, on {diagnosis.case.placement}; run {diagnosis.run_id}."
    if diagnosis.throughput is not None:
        step = units.quantity(diagnosis.step_s, "s")
        yield f"{units.significant(diagnosis.throughput, 4)} {work.item}s/s, a step takes {step}."
    if diagnosis.fed is not None:
        yield f"The step was {inline(diagnosis.fed)}."
    if diagnosis.unmeasured is not None:
        yield f"Nothing was measured for this report: {inline(diagnosis.unmeasured)}."


def _cause(cause: Cause, tried: Sequence[Tried]) -> Iterator[str]:
    yield f"{cause.kind} bottleneck; {limit_words(cause)}."
    yield ""
    yield from (f"- {inline(line)}." for line in cause.evidence)
    for place in cause.where:
        yield f"- {inline(place.file)}:{place.line}, {100 * place.share:.0f} % of the step: `{inline(place.code)}`"
    if cause.usual:
        yield f"- Usual causes: {inline(', '.join(cause.usual))}."
    if remedies := open_remedies(cause, tried):
        yield f"- Not measured: {inline('; '.join(remedies))}."
    yield from (f"- In code of your own: {inline(how)}." for how in in_own_code(cause, tried))


def _what_ifs(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.tried:
        return
    yield from ("", "## What would help", "")
    shown = [*diagnosis.tried]
    if diagnosis.applied is not None and diagnosis.applied not in shown:
        shown.append(diagnosis.applied)
    rows = [
        (one.what_if.name + (" (the most a loader can gain)" if one.what_if.ceiling else ""), gain_words(one),
         memory_words(one), one.loss or "–", one.message or "")
        for one in shown
    ]  # fmt: skip
    yield from table(("what if", "times as fast", "peak memory", "what is computed", ""), rows, left=5)


def _cases(cases: Sequence[CaseSummary]) -> Iterator[str]:
    axes = varying_axes(cases)
    rows = []
    for case in cases:
        memory = case.peak_memory_bytes
        rate = case.estimates["throughput"]
        step = case.estimates.get("step_time_mean")
        rows.append((
            *(scalar_word(case.configuration.get(axis)) for axis in axes), str(case.placement),
            f"{units.significant(rate.value, 4)} {units.spread(rate.value, rate.low, rate.high)}".strip(),
            units.quantity(step.value if step else None, "s"),
            units.quantity(memory, "bytes"), str(case.verdict),
        ))  # fmt: skip
    yield from table((*axes, "device", f"{cases[0].workload.item}s/s", "step", "peak memory", "verdict"), rows)
