"""What `torchstone.Diagnostics` measured as a Document: the diagnosis of it, and below it the cases of each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.analysis.sweep_table import Swept
from torchstone.core.schema.case import Placement
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.trial import Status
from torchstone.report.document import Chart, Document, Facts, Part, Section, Text, paragraphs
from torchstone.report.documents.diagnosis import diagnosis_document
from torchstone.report.documents.findings import finding_parts
from torchstone.report.documents.measured_cases import measured_cases
from torchstone.report.documents.run_answer import answer_lines


def sweep_document(swept: Swept, diagnosis: Diagnosis, pictures: Sequence[Chart] = ()) -> Document:
    """Return the page. `pictures`: those that were drawn beside it."""
    document = diagnosis_document(diagnosis)
    return Document(document.title, (*document.parts, *_parts(swept, pictures)))


def _parts(swept: Swept, pictures: Sequence[Chart]) -> Iterator[Part]:
    run = swept.summary
    yield Section("Measured", paragraphs([*answer_lines(run), *_how(run)]))
    for placement in dict.fromkeys(case.placement for case in run.cases):
        own = [case for case in run.cases if case.placement == placement]
        yield Section(f"On {_named(placement, run)}", (measured_cases(own), *_ran_out(own)))
    if doubts := tuple(finding_parts(run)):
        yield Section("What to doubt", doubts)
    if swept.skipped:
        yield Section("Skipped", (Facts(tuple(swept.skipped.items())),))
    if pictures:
        yield Section("Pictures", tuple(pictures))


def _ran_out(cases: Sequence[CaseSummary]) -> Iterator[Text]:
    for case in cases:
        for message in {t.outcome.message for t in case.trials if t.outcome.status == Status.OUT_OF_MEMORY}:
            yield Text(f"Batch size {case.configuration.get('batch_size')} ran out of memory: {message}.")


def _how(run: RunSummary) -> Iterator[str]:
    software, trials, host = run.machine.software, run.procedure.repetitions, run.machine.host
    steps = f"{run.procedure.iterations} steps" + (f" in each of {trials} trials" if trials > 1 else "")
    yield f"Training steps of {run.name}, {steps} a batch size, in one process; run {run.run_id}."
    machine = f"{host.processor}, {host.logical_cores} logical cores"
    yield f"{machine}; torch {software.get('torch')}, Python {software.get('python')}."
    yield "Rates are all samples over all time. Phases are means of a pass of their own, which is cut into them."


def _named(placement: Placement, run: RunSummary) -> str:
    info = run.machine.device(placement.device, placement.index)
    return f"{placement} ({info.name})" if info is not None else str(placement)
