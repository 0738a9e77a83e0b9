"""A report of several runs: made, with the records that it carries, and made again of what it carries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.analysis.compare.answer import answers
from torchstone.analysis.compare.compare import Asked, compare
from torchstone.analysis.compare.inputs import ComparedInput, labelled
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import SCHEMA, Run
from torchstone.report.carried import carrying, claim_files, record_bytes, with_note
from torchstone.report.document import Document
from torchstone.report.documents.combined import combined_document
from torchstone.report.documents.comparison import comparison_document
from torchstone.report.documents.comparison_pictures import comparison_pictures
from torchstone.report.layout import LAYOUT, Kind, Layout, Side
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import record_lines


def comparison_of(participants: Sequence[ComparedInput]) -> Document:
    """Return the report that compares these, without what it carries. Raises UsageError as `compare` does."""
    compared = compare(participants, Asked())
    return comparison_document(compared, answers(compared), pictures=comparison_pictures(participants))


def carrying_compared(document: Document, participants: Sequence[ComparedInput], folder: Path) -> Document:
    """Return the report of a comparison with the records of all its runs. `folder`: the store."""
    if any(one.trainings for one in participants):
        return with_note(document, "it shows files of trainings that are in no record (training_metrics.json)")
    files: dict[str, bytes] = {}
    for run in (run for one in participants for run in one.runs):
        record = _record_of(run, folder)
        sha256 = hashlib.sha256(record).hexdigest()
        files |= claim_files(summarize(entry_of(run, Path(sha256)), ()), record)
    sides = tuple(Side(one.label, tuple(run.head.run_id for run in one.runs)) for one in participants)
    return carrying(document, {**files, LAYOUT: _layout(Kind.COMPARISON, sides)})


def carrying_combined(document: Document, summaries: Sequence[RunSummary]) -> Document:
    """Return a combined report with the records of all its runs. Raises UsageError where one cannot be read."""
    files: dict[str, bytes] = {}
    for summary in summaries:
        files |= claim_files(summary, record_bytes(summary))
    sides = tuple(Side(summary.name, (summary.run_id,)) for summary in summaries)
    return carrying(document, {**files, LAYOUT: _layout(Kind.COMBINED, sides)})


def document_again(
    layout: Layout, runs: Mapping[str, Run], summaries: Mapping[str, RunSummary], documents: Mapping[str, Document]
) -> Document:
    """Return the Document that a layout gives of these runs, all by their ids. `documents`: of a combined report.

    Raises UsageError where the layout does not name each run once, or the runs cannot be put together so.
    """
    named = [run_id for side in layout.sides for run_id in side.runs]
    if sorted(named) != sorted(runs) or not all(side.runs for side in layout.sides):
        raise UsageError(f"{LAYOUT} does not name each run that is carried once")
    if layout.kind == Kind.COMBINED:
        return combined_document([summaries[one] for one in named], [documents[one] for one in named])
    sides = [tuple(runs[run_id] for run_id in side.runs) for side in layout.sides]
    return comparison_of(labelled([side.label for side in layout.sides], sides))


def _layout(kind: Kind, sides: Sequence[Side]) -> bytes:
    return encode(Layout(SCHEMA, kind, tuple(sides))) + b"\n"


def _record_of(run: Run, folder: Path) -> bytes:
    """Return the record of a run: as it is stored where that is the same run, else written anew from what was read."""
    path = record_path(folder, run.head.run_id)
    if run.end is not None and path.is_file() and read_record(path) == run:
        return path.read_bytes()
    return b"".join(record_lines(run))
