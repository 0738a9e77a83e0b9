"""A run below its answer: its head, its tables, what to doubt, and what else the figures say."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchstone.analysis.advice.longer import longer
from torchstone.analysis.summary import RunSummary
from torchstone.cli._blocks import print_readings
from torchstone.cli._case_table import print_cases
from torchstone.cli._convergence import print_convergence
from torchstone.cli._findings import print_findings
from torchstone.cli._report import print_head
from torchstone.cli._table import terminal_width

if TYPE_CHECKING:
    from torchstone.workflows.run.results import Results


def print_run(run: RunSummary, width: int | None = None, *, every: bool = False) -> None:
    """Print all of it; with `every` each finding and each reading."""
    print()
    print_head(run)
    print_cases(run, width)
    if (more := longer(run)) is not None:
        print("\n" + textwrap.fill(more, width or terminal_width(), break_on_hyphens=False))
    print_findings(run, every=every)
    if run.answer is None and run.comparison is None:
        print_readings(run, width, every=every)
    print_convergence(run, width, every=every)


def print_files(results: Results) -> None:
    """Print where a run is, and what shows all of it."""
    run = results.summary
    print(f"\nrecord    {run.record}\ndocument  {results.document}\ntable     {results.table}")
    print(f"more      torchstone show {run.run_id} --full")
