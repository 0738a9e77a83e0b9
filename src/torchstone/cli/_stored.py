"""The Document of a stored run, whatever kind it is; of an A/B comparison with what it said when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchstone.analysis.advice.loss_curves import Curves
    from torchstone.analysis.compare.ab_course import Course
    from torchstone.analysis.summary import RunSummary
    from torchstone.core.schema.trial import Trial
    from torchstone.report.document import Document, Section
    from torchstone.report.pictures import Specifications


def experiment_of(summary: RunSummary) -> tuple[tuple[Trial, ...], Course | None]:
    """Return the trials of an A/B comparison and its course; nothing of another run. Reads the record."""
    from torchstone.analysis.compare.ab_course import course_recorded
    from torchstone.storage.query import read_run

    if summary.comparison is None:
        return (), None
    trials = read_run(Path(summary.record)).trials
    return trials, course_recorded(trials)


def document_of(
    summary: RunSummary, *, every: bool, pictures: bool = False, reported: tuple[int, int] | None = None,
    drawing: Sequence[Specifications] = (),
) -> Document:  # fmt: skip
    """Return the Document. `every`: with every figure of every case; `pictures`: with charts, as a terminal has not.

    `reported`: only the cases from this place up to that one have every figure, for a page of many cases. `drawing`:
    what the formats draw of charts, which is begun meanwhile.
    """
    from torchstone.report.documents.ab import ab_document
    from torchstone.report.documents.run import run_document

    charts, curves = _pictures(summary) if pictures else ((), None)
    if drawing:
        from torchstone.report.pictures import begin_drawing

        begin_drawing(charts, drawing)
    trials, course = experiment_of(summary)
    answer = None
    if summary.comparison is not None and course is not None:
        answer = ab_document(summary.comparison, trials, summary.cases, course).parts
    return run_document(summary, every=every, answer=answer, pictures=charts, reported=reported, curves=curves)


def _pictures(summary: RunSummary) -> tuple[Sequence[Section], Curves]:
    """Return the pictures of a run, and its losses. Reads the record, since its raw values are shown."""
    from torchstone.analysis.advice.loss_curves import curves_of
    from torchstone.report.documents.run_pictures import pictured_part, run_pictures
    from torchstone.storage.query import read_run
    from torchstone.storage.training.metrics_log import metrics_of

    training = metrics_of(summary.run_id, summary.procedure.fit)
    run = read_run(Path(summary.record), pictured_part(summary))
    return run_pictures(summary, run, training), curves_of(run)
