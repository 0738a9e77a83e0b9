"""performance_report.md as a Document: what was measured on each device, what is seen in it, what to ask and to check.

One report for `torchstone diagnose` (of_diagnosis) and for `torchstone.Diagnostics` (of_sweep).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.choices import choice_of, choose
from torchstone.analysis.advice.devices import beside_the_cpu
from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.analysis.sweep_table import Swept
from torchstone.core import units
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Case, Placement, Workload
from torchstone.core.schema.diagnosis import Cause, Diagnosis
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.core.schema.trial import Status
from torchstone.report.diagnosis_wording import about_lines
from torchstone.report.document import Chart, Document, Facts, Part, Role, Section, Text, paragraphs
from torchstone.report.documents import bottleneck_report
from torchstone.report.documents.findings import doubts, labels
from torchstone.report.documents.measured_cases import measured_cases
from torchstone.report.documents.run_answer import doubt, left_out, not_known
from torchstone.workflows.diagnose.observations import (
    of_its_step,
    over_batch_sizes,
    patterns,
    questions,
    to_check,
)

FILE = "performance_report.md"
_FEWEST = 3  # batch sizes that make a curve


class Performance(msgspec.Struct, frozen=True):
    """What a report is made of. `cases`: of one workload, on any device, however they ended.

    `case`: the one that is asked about. `cause`: the first that bottleneck_report.md, beside this one, has.
    `skipped`: device → why.
    """

    name: str
    about: tuple[str, ...]
    run: RunSummary
    cases: tuple[CaseSummary, ...]
    case: CaseSummary | None = None
    notes: tuple[Advice, ...] = ()
    cause: Cause | None = None
    skipped: Mapping[str, str] = {}
    pictures: tuple[Chart, ...] = ()


def of_diagnosis(diagnosis: Diagnosis, run: RunSummary) -> Document:
    """Return the report on the recorded Cases of what was diagnosed. `run`: where they are."""
    case = _recorded(diagnosis.case, run)
    cases = tuple(one for one in run.cases if case is not None and one.workload == case.workload)
    known = patterns(run, case) if case is not None else []
    notes = tuple(one for one in diagnosis.pattern if one not in known)
    about, cause = tuple(about_lines(diagnosis)), next(iter(diagnosis.causes), None)
    return performance_report(Performance(diagnosis.about, about, run, cases, case, notes, cause))


def of_sweep(swept: Swept, case: CaseSummary | None, cause: Cause | None, pictures: Sequence[Chart] = ()) -> Document:
    """Return the report on a sweep over batch sizes and devices. `pictures`: those that were drawn beside it."""
    run = swept.summary
    return performance_report(Performance(
        run.name, tuple(_of_the_sweep(run)), run, run.cases, case, (), cause, swept.skipped, tuple(pictures),
    ))  # fmt: skip


def performance_report(told: Performance) -> Document:
    """Return the report."""
    return Document(f"Performance report: {told.name}", tuple(_parts(told)))


def _parts(told: Performance) -> Iterator[Part]:
    yield from paragraphs(told.about)
    yield from (part for note in told.notes for part in _advice(note))
    for placement in dict.fromkeys(case.placement for case in told.cases):
        own = [case for case in told.cases if case.placement == placement]
        yield Section(f"On {_named(placement, told.run)}", tuple(_on_device(own, told)))
    if beside := beside_the_cpu([case for case in told.cases if "throughput" in case.estimates]):
        parts = (part for one in beside for part in _advice(one.advice))
        yield Section("CPU and accelerator", tuple(parts))
    if told.cause is not None:
        text = f"{told.cause.title} ({told.cause.kind}). See {bottleneck_report.FILE}."
        yield Section("The bottleneck", (Text(text),))
    if told.case is not None and (asked := questions(told.case)):
        yield Section("Slow training: three questions", paragraphs([f"{line}." for line in asked], Role.DETAIL))
    if told.case is not None:
        yield Section("Before a long training", paragraphs(to_check(told.run, told.case), Role.DETAIL))
    if found := tuple(doubts(told.run, labels(told.run.cases), least=Severity.WARNING)):
        yield Section("What to doubt", found)
    if told.skipped:
        yield Section("Skipped", (Facts(tuple(told.skipped.items())),))
    if told.pictures:
        yield Section("Pictures", told.pictures)


def _on_device(own: Sequence[CaseSummary], told: Performance) -> Iterator[Part]:
    """Yield the table of a device's Cases, and what is read from them."""
    yield measured_cases(own)
    good = [case for case in own if "throughput" in case.estimates]
    if good:
        yield from _read(good, told)
    else:
        yield Text("No batch size was measured to the end.")
    for case in own:
        for message in {t.outcome.message for t in case.trials if t.outcome.status == Status.OUT_OF_MEMORY}:
            yield Text(f"Batch size {case.configuration.get('batch_size')} ran out of memory: {message}.")


def _read(good: Sequence[CaseSummary], told: Performance) -> Iterator[Part]:
    # What is SUSPECT may be the fastest, or not: nothing is chosen from it (run_answer.py).
    valid, axes = [case for case in good if case.verdict == Verdict.VALID], varying_axes(good)
    chosen = choose([choice_of(case, told.run.machine, axes) for case in valid], InRounds(valid))
    named = chosen.highest_throughput.case_id if chosen is not None else good[0].case_id
    fastest = next(case for case in good if case.case_id == named)
    if chosen is None and len(good) > 1:
        yield Text(not_known(valid, good, axes))
    else:
        rate = units.quantity(fastest.estimates["throughput"].value, "number")
        said = f"Highest throughput: {rate} {fastest.workload.item}s/s at {_point(fastest, good)}."
        yield Text(said + (left_out(good, axes) if len(good) > 1 else doubt(good)))
    if len({case.configuration.get("batch_size") for case in good}) < _FEWEST:
        yield Text("Under three batch sizes there is no curve to read: measure more of them.")
    case = next((one for one in good if told.case is not None and one.case_id == told.case.case_id), fastest)
    curve, step = list(over_batch_sizes(told.run, case)), list(of_its_step(told.run, case))
    yield from (part for one in curve for part in _advice(one))
    if step:
        yield Text(f"At {_point(case, good)}:")
    yield from (part for one in step for part in _advice(one))
    if len(curve) < 2 and not step:  # the first line of a curve only says how it rises
        yield Text("Neither the curve nor the phases show anything that is worth a change.")


def _point(case: CaseSummary, cases: Sequence[CaseSummary]) -> str:
    axes = dict.fromkeys(("batch_size", *varying_axes(cases)))
    values = case.configuration
    told = [f"{axis.replace('_', ' ')} {scalar_word(values[axis])}" for axis in axes if axis in values]
    return ", ".join(told) or "its only setting"


def _advice(one: Advice) -> Iterator[Text]:
    yield Text(f"{one.seen}.")
    if one.causes:
        yield Text(f"Usual causes: {', '.join(one.causes)}.", Role.DETAIL)
    if one.remedies:
        yield Text(f"Try: {'; '.join(one.remedies)}.", Role.DETAIL)


# ── of what it is ───────────────────────────────────────────────────────────────────────────────────────────


def _recorded(case: Case, run: RunSummary) -> CaseSummary | None:
    """Return what a run has of a Case. It is diagnosed without its latency window: its mode may be another there."""
    found = [one for one in run.cases if _but_mode(one) == _but_mode(case)]
    return next((one for one in found if one.case_id == case.case_id), found[0] if found else None)


def _but_mode(one: Case | CaseSummary) -> tuple[Workload, Placement, Mapping[str, Scalar]]:
    return one.workload, one.placement, {axis: value for axis, value in one.configuration.items() if axis != "mode"}


def _of_the_sweep(run: RunSummary) -> Iterator[str]:
    software, trials, host = run.machine.software, run.procedure.repetitions, run.machine.host
    steps = f"{run.procedure.iterations} steps" + (f" in each of {trials} trials" if trials > 1 else "")
    yield f"Training steps of {run.name}, {steps} a batch size, in one process; run {run.run_id}."
    machine = f"{host.processor}, {host.logical_cores} logical cores"
    yield f"{machine}; torch {software.get('torch')}, Python {software.get('python')}."
    yield "Rates are all samples over all time. Phases are means of a pass of their own, which is cut into them."


def _named(placement: Placement, run: RunSummary) -> str:
    info = run.machine.device(placement.device, placement.index)
    return f"{placement} ({info.name})" if info is not None else str(placement)
