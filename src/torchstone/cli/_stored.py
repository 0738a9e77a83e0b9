"""The Document of a stored run, whatever kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchstone.analysis.advice.trainings import Curves
    from torchstone.analysis.summary import RunSummary
    from torchstone.report.document import Document, Section
    from torchstone.report.pictures import Specifications


def document_of(
    summary: RunSummary,
    *,
    every: bool,
    pictures: bool = False,
    reported: tuple[int, int] | None = None,
    drawing: Sequence[Specifications] = (),
) -> Document:
    """Return the Document. `every`: with every figure of every case; `pictures`: with charts, as a terminal has not.

    `reported`: only the cases from this place up to that one have every figure, for a page of many cases. `drawing`:
    what the formats draw of charts, which is begun meanwhile.
    """
    from torchstone.report.documents.run import run_document

    charts, curves = _pictures(summary) if pictures else ((), None)
    if drawing:
        from torchstone.report.pictures import begin_drawing

        begin_drawing(charts, drawing)
    return run_document(summary, every=every, pictures=charts, reported=reported, curves=curves)


def _pictures(summary: RunSummary) -> tuple[Sequence[Section], Curves]:
    """Return the pictures of a run, and its losses. Reads the record, since its raw values are shown."""
    from torchstone.analysis.advice.trainings import curves_of
    from torchstone.report.documents.run import pictured_part, run_pictures
    from torchstone.storage.query import read_run
    from torchstone.storage.training import metrics_of

    training = metrics_of(summary.run_id, summary.procedure.fit)
    run = read_run(Path(summary.record), pictured_part(summary))
    return run_pictures(summary, run, training), curves_of(run)
