"""The two files of a diagnosis: bottleneck_report.md, what is wrong; performance_report.md, what was measured."""

from __future__ import annotations

from pathlib import Path

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError
from torchstone.core.own_files import write_whole
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.report.document import Document
from torchstone.report.documents import bottleneck_report, performance_report
from torchstone.report.renderers.md import markdown
from torchstone.report.translation.documents import in_spoken_language


def write_reports(output: Path, diagnosis: Diagnosis, run: RunSummary) -> tuple[Path, Path]:
    """Write both into diagnostics/ID below `output` and return their paths. `run`: of the Cases.

    Raises MissingError where they cannot be written.
    """
    folder = output / "diagnostics" / diagnosis.run_id
    bottlenecks, performance = folder / bottleneck_report.FILE, folder / performance_report.FILE
    write_page(bottlenecks, bottleneck_report.bottleneck_report(diagnosis), output)
    write_page(performance, performance_report.of_diagnosis(diagnosis, run), output)
    return bottlenecks, performance


def write_page(path: Path, document: Document, below: Path | None = None) -> str:
    """Write a Document as Markdown through no link `below` a folder, and return its text.

    Raises MissingError where it cannot be written.
    """
    text = markdown(in_spoken_language(document))
    try:
        write_whole(path, text.encode(), below)
    except OSError as fault:
        raise MissingError(f"{path}: the report cannot be written: {fault.strerror}") from None
    return text
