"""A run as a Document: its answer, what stands against believing it, its tables; folded, everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.longer import longer
from torchstone.analysis.advice.loss_curves import Curves
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.claim import IMPORTED
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.load import SEARCH
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Training
from torchstone.core.schema.trial import Status, replicates
from torchstone.report.document import Document, Facts, Part, Section, Text
from torchstone.report.documents.ab import ab_parts, ab_rest
from torchstone.report.documents.case_table import case_parts, choices_of_groups, legend
from torchstone.report.documents.convergence import convergence_parts
from torchstone.report.documents.diagnosis import diagnosis_parts
from torchstone.report.documents.findings import finding_parts
from torchstone.report.documents.full_report import report_section
from torchstone.report.documents.load_results import goodput_parts
from torchstone.report.documents.notes import device_parts, note_parts
from torchstone.report.documents.run_answer import answer_parts
from torchstone.report.documents.scaling import scaling_parts
from torchstone.report.documents.settings import setting_parts
from torchstone.report.documents.training import training_parts
from torchstone.report.documents.tune import tune_choices, tune_parts
from torchstone.storage.query import read_run

if TYPE_CHECKING:
    from torchstone.workflows.run.results import Results

_DAY = 10  # characters of a date


def run_document(
    run: RunSummary, *, every: bool = False, pictures: Sequence[Part] = (), reported: tuple[int, int] | None = None,
    curves: Curves | None = None,
) -> Document:  # fmt: skip
    """Return what is told of a stored run. `every`: each finding, each note, and every figure of every case.

    `pictures`: what stands below the tables and what to doubt (documents/run_pictures.py). `reported`: every figure of
    the cases from this place up to that one only. `curves`: the losses, where the record has been read already.
    """
    shown = run if every else without_probes(run)
    report = (msgspec.structs.replace(report_section(run, reported), folded=True),) if every else ()
    rest = run_parts(shown, every=every, pictures=pictures, curves=curves)
    return Document(run.name, (*_first(run, shown), *rest, *report))


def measured_document(results: Results, page: Path | None = None) -> Document:
    """Return what is told of a run that has just ended, and where its files are. `page`: a report that was written."""
    run = results.summary
    shown = without_probes(run)
    rest = (("record", run.record), ("document", str(results.document)), ("table", str(results.table)))
    files = (("report", str(page)), *rest) if page is not None else rest
    return Document(run.name, (*_first(run, shown), *run_parts(shown, files=files)))


def _first(run: RunSummary, shown: RunSummary) -> Iterable[Part]:
    """Return the answer of a run. Reads the record of a live comparison, whose sides' figures are those of pairs."""
    match run.answer:
        case TuneResult():
            return tune_parts(run, run.answer)
        case AbResult():
            return ab_parts(run.answer, read_run(Path(run.record)).trials, run.cases)
        case Diagnosis():
            return diagnosis_parts(run.answer)
        case Training():
            return training_parts(run, run.answer)
    return goodput_parts(run) if run.command[:1] == (SEARCH,) else answer_parts(shown)


def run_parts(
    run: RunSummary, *, every: bool = False, pictures: Sequence[Part] = (), curves: Curves | None = None,
    files: Sequence[tuple[str, str]] = (),
) -> Iterator[Part]:  # fmt: skip
    """Yield what stands below the answer of a run: what to doubt, and its tables; all else is folded.

    `every`: each finding and each note; `files`: those of a run that has just ended, by what they are.
    """
    yield from finding_parts(run)
    if (more := longer(run)) is not None:
        yield Text(more)
    if not isinstance(run.answer, AbResult | Training):  # which have told their figures
        yield from (sections := tuple(case_parts(run)))
        if run.answer is None:
            yield from device_parts(run)
        yield from legend(sections)
        yield Text(_measured_how(run))
    yield from scaling_parts(run)
    yield from pictures
    yield from convergence_parts(run, every=every, curves=curves)
    if rest := tuple(_rest(run, every=every, files=files)):
        title = f"everything else of {run.name}, {run.started_utc[:_DAY]}"  # which of all runs `show latest` shows
        yield Section(title, rest, folded=True, how=f"torchstone show {run.run_id} --full")


def _rest(run: RunSummary, *, every: bool, files: Sequence[tuple[str, str]]) -> Iterator[Part]:
    yield from map(Text, _head(run))
    if isinstance(run.answer, AbResult):
        yield from ab_rest(run.answer, read_run(Path(run.record)).trials, run.cases)
    if isinstance(run.answer, AbResult | Training):
        yield from case_parts(run)
        yield Text(_measured_how(run))
    yield from choices_of_groups(run)
    if every and (found := tuple(finding_parts(run, every=True))):
        yield Section("each finding", found)
    if isinstance(run.answer, TuneResult):
        yield from tune_choices(run, run.answer)
    if run.answer is None:
        yield from note_parts(run, every=every)
    yield from setting_parts(run)
    if files:
        yield Facts(tuple(files))


def without_probes(run: RunSummary) -> RunSummary:
    """Return a run without the Cases that a search only probed, where others were measured: probes are no results."""
    taken = [trial for case in run.cases for trial in case.trials]
    if len(replicates(taken)) in (0, len(taken)):
        return run
    return msgspec.structs.replace(run, cases=tuple(case for case in run.cases if replicates(case.trials)))


def _measured_how(run: RunSummary) -> str:
    """Return on which machine a run was measured, and over how many trials."""
    counted = _counted(run)
    if run.procedure.isolation == IMPORTED:
        tools = sorted({str(t.facts.imported_from) for case in run.cases for t in case.trials})
        how = f"{counted}, measured by {', '.join(tools)}; torchstone check {run.run_id} looks for its mistakes"
    else:
        how = f"{counted}, ± half the 95 % confidence interval"
    return f"{_machine(run)}: {how}" + (f", {run.status}" if run.status != "done" else "")


def _machine(run: RunSummary) -> str:
    machine = run.machine
    used = {str(case.placement) for case in run.cases}
    known = [d.name for d in machine.devices if str(Placement(d.kind, d.index)) in used]
    known += [f"torch {version}"] if (version := machine.software.get("torch")) is not None else []
    return ", ".join((machine.host.hostname, *known))


def _head(run: RunSummary) -> Iterator[str]:
    """Yield what run it is, and how it was measured."""
    how = run.procedure
    yield f"{run.name}: run {run.run_id}, {run.started_utc}, {run.status}"
    if how.isolation == IMPORTED:
        return
    loads = {case.workload.task for case in run.cases} == {Task.LOADGEN}
    loop = any(case.workload.is_loop for case in run.cases)
    long = "all steps of a loop" if loop else _length(how, run_of_loads=loads)
    yield f"{_counted(run)}, {long}, {how.isolation}, {how.heap} heap"


def _counted(run: RunSummary) -> str:
    """Return how many trials of a case there are: as asked for, or as it came."""
    how = run.procedure
    if not how.in_rounds:
        return f"{how.repetitions} trial{'s' * (how.repetitions > 1)} a case"
    cases = on_devices_here(run)
    counts = [sum(t.outcome.status != Status.INTERRUPTED for t in case.trials) for case in cases] or [0]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least} to {most}'} trial{'s' * (most != 1)} a case"


def _length(how: Procedure, *, run_of_loads: bool) -> str:
    if how.epochs is not None:
        return f"at most {how.epochs} epoch{'s' * (how.epochs > 1)}"
    if how.iterations is not None:
        return f"{how.iterations} steps"
    if how.in_rounds and run_of_loads:
        return f"loads of at least {how.budget_s:g} s"
    if how.in_rounds:
        return f"short windows, until ±{100 * how.aim:g} %"
    return f"at most {how.budget_s:g} s a window{f', until ±{100 * how.target:g} %' if how.target is not None else ''}"
