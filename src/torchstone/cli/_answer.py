"""A tune that has ended: its Document, and below it the Cases of its final round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchstone.analysis.summary import RunSummary
from torchstone.cli._blocks import block_lines
from torchstone.cli._render import show_document
from torchstone.cli._run_answer import rate_words
from torchstone.cli._run_blocks import print_files, print_run
from torchstone.report.document import Role, Text
from torchstone.report.documents.tune import chosen_of, of_final_round, recommended_case, tune_document

if TYPE_CHECKING:
    from torchstone.workflows.run.results import Results


def show_tuned(results: Results) -> None:
    """Print a tune that has ended: its answer, the Cases of its final round, what to doubt, and where the files are."""
    run = results.summary
    if run.answer is not None:
        show_tune(run)
    print_run(of_final_round(run))
    print_files(results)


def show_tune(run: RunSummary) -> None:
    """Print what a tune found. Raises ValueError for a run that is none, or that came to no answer."""
    if run.answer is None:
        raise ValueError(f"{run.run_id} has no answer")
    case = recommended_case(run, run.answer)
    work, accelerator = case.workload, case.placement.device != "cpu"
    lines = block_lines(chosen_of(run.answer), str(work.task), work.item, accelerator=accelerator)
    # A line of a block that begins with spaces belongs to the one before it.
    choices = [Text(line.strip(), Role.DETAIL if line.startswith(" ") else Role.BODY) for line in lines]
    show_document(tune_document(run, rate_words(case), choices))
