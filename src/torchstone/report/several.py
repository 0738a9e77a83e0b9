"""A report of several runs: made, with the records that it carries, and made again of what it carries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from torchstone.analysis.compare.compare import ComparisonRequest
from torchstone.analysis.compare.inputs import ComparedInput, labelled, parts_of
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import SCHEMA, Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.report.carried import carrying, claim_files, files_of_run, training_file
from torchstone.report.document import Document
from torchstone.report.documents.combined import combined_document
from torchstone.report.documents.comparison import compared_document
from torchstone.storage.place import Place
from torchstone.storage.query import entry_of, locate_id
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines

LAYOUT = "report.json"  # the file of it in a report


class ReportKind(StrEnum):
    """What a report does with its runs."""

    COMBINED = "combined"  # one after the other
    COMPARISON = "comparison"  # each side with the first


class LayoutSide(msgspec.Struct, frozen=True):
    """One of the compared, or one run of a combined report. `runs`: their ids, in order."""

    label: str
    runs: tuple[str, ...]


class Layout(msgspec.Struct, frozen=True, tag="report", tag_field="record"):
    """How a report of several runs is put together. Of a comparison how it judges, and of which axis of one run."""

    schema: int
    kind: ReportKind
    sides: tuple[LayoutSide, ...]
    asked: ComparisonRequest = ComparisonRequest()
    over: str | None = None


class CarriedRuns(msgspec.Struct, frozen=True):
    """What a report of several runs carries, by the ids of the runs.

    `documents`: of each run of a combined report; `trainings`: the epochs of those that are trainings.
    """

    runs: Mapping[str, Run]
    summaries: Mapping[str, RunSummary]
    documents: Mapping[str, Document]
    trainings: Mapping[str, TrainingMetrics]


DocumentAgain = Callable[[Layout, CarriedRuns], Document]


def carrying_compared(
    document: Document, participants: Sequence[ComparedInput], request: ComparisonRequest, place: Place
) -> Document:
    """Return the report of a comparison with the records of all its runs. `place`: where they are stored."""
    files: dict[str, bytes] = {}
    whole = {run.head.run_id: run for one in participants for run in one.whole or one.runs}
    for run in whole.values():
        record = _record_of(run, place)
        sha256 = hashlib.sha256(record).hexdigest()
        files |= claim_files(summarize(entry_of(run, Path(sha256)), ()), record)
    for metrics in (metrics for one in participants for metrics in one.trainings.values()):
        files |= training_file(metrics)
    sides = tuple(LayoutSide(one.label, tuple(run.head.run_id for run in one.runs)) for one in participants)
    layout = Layout(SCHEMA, ReportKind.COMPARISON, sides, request, participants[0].over)
    return carrying(document, {**files, LAYOUT: encode(layout) + b"\n"})


def carrying_combined(document: Document, summaries: Sequence[RunSummary]) -> Document:
    """Return a combined report with the records of all its runs. Raises UsageError where one cannot be read."""
    files: dict[str, bytes] = {}
    for summary in summaries:
        files |= files_of_run(summary)
    sides = tuple(LayoutSide(summary.name, (summary.run_id,)) for summary in summaries)
    return carrying(document, {**files, LAYOUT: encode(Layout(SCHEMA, ReportKind.COMBINED, sides)) + b"\n"})


def document_again(layout: Layout, carried: CarriedRuns) -> Document:
    """Return the Document that a layout gives of these runs.

    Raises UsageError where the layout does not name each run once, or the runs cannot be put together so.
    """
    if layout.over is not None:
        return compared_document(_parts(layout, layout.over, carried), layout.asked)
    named = [run_id for side in layout.sides for run_id in side.runs]
    if sorted(named) != sorted(carried.runs) or not all(side.runs for side in layout.sides):
        raise UsageError(f"{LAYOUT} does not name each run that is carried once")
    if layout.kind == ReportKind.COMBINED:
        return combined_document([carried.summaries[one] for one in named], [carried.documents[one] for one in named])
    sides = [tuple(carried.runs[run_id] for run_id in side.runs) for side in layout.sides]
    participants = [
        msgspec.structs.replace(
            one, trainings={run_id: carried.trainings[run_id] for run_id in side.runs if run_id in carried.trainings}
        )
        for one, side in zip(labelled([side.label for side in layout.sides], sides), layout.sides, strict=True)
    ]
    return compared_document(participants, layout.asked)


def _parts(layout: Layout, over: str, known: CarriedRuns) -> list[ComparedInput]:
    """Return the sides of a comparison within runs, in the order of the layout."""
    runs = layout.sides[0].runs if layout.sides else ()
    if sorted(runs) != sorted(known.runs) or any(side.runs != runs for side in layout.sides):
        raise UsageError(f"{LAYOUT} does not name each run that is carried once")
    found = {one.label: one for one in parts_of("", tuple(known.runs[run_id] for run_id in runs), over)}
    if sorted(found) != sorted(side.label for side in layout.sides):
        raise UsageError(f"{LAYOUT} does not name each value of {over} once")
    return [found[side.label] for side in layout.sides]


def _record_of(run: Run, place: Place) -> bytes:
    """Return the record of a run: as it is stored where that is the same run, else written anew from what was read."""
    path = locate_id(place, run.head.run_id)
    if run.end is not None and path is not None and read_record(path) == run:
        return path.read_bytes()
    return b"".join(record_lines(run))
