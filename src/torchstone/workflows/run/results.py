"""What a run leaves besides its record: the document, the table of its Cases, and the summary that is printed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from torchstone.analysis.rows import case_rows
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.own_files import moved
from torchstone.core.schema.performance_summary import performance_summaries
from torchstone.core.schema.run import Run
from torchstone.execution.controller.active_run import missing
from torchstone.plugins import registry
from torchstone.storage.index import sync
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import unwritten
from torchstone.storage.run_document import write_document


class Results(msgspec.Struct, frozen=True):
    """A run that has ended. `remaining`: how many trials of its plan it lacks."""

    summary: RunSummary
    document: Path
    table: Path
    remaining: int


def table_path(folder: Path, run_id: str) -> Path:
    """Return where the table of a run's Cases lies. It is written last: where it is, the run wants nothing."""
    return folder / "data" / f"{run_id}_cases.csv"


def published(run: Run, folder: Path) -> Results:
    """Write document and table, and return them with the summary. Raises MissingError if the disk is full."""
    summary = summarize(entry_of(run, Path()))
    rows = case_rows(run, summary)
    diverged = {finding.subject for finding in run.findings if finding.check == "loss_diverged"}
    document = write_document(run, folder, summary=performance_summaries(rows, diverged))
    table = table_path(folder, run.head.run_id)
    try:
        with moved(table, folder) as beside:  # half a table would say that the run is complete
            registry.load("exporters", "csv").write(run, rows, beside)
    except OSError as fault:
        raise unwritten(table, fault, folder, run.head) from fault
    sync(folder)
    summary = msgspec.structs.replace(summary, record=str(record_path(folder, run.head.run_id)))
    return Results(summary, document, table, sum(1 for _ in missing(run)))
