"""A run below its answer, printed, for `train` and `tune`. To go once what they say is a Document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchstone.analysis.summary import RunSummary
from torchstone.cli._render import show_document
from torchstone.report.document import Document
from torchstone.report.documents.run import file_parts, run_parts

if TYPE_CHECKING:
    from torchstone.workflows.run.results import Results


def print_run(run: RunSummary, width: int | None = None, *, every: bool = False) -> None:
    """Print all of it; with `every` each finding and each note."""
    print()
    show_document(Document(run.name, tuple(run_parts(run, every=every))), width, every=every)


def print_files(results: Results) -> None:
    """Print where a run is, and what shows all of it."""
    print()
    show_document(Document(results.summary.name, tuple(file_parts(results))))
