"""The two files of a diagnosis: bottleneck_report.md, what is wrong; performance_report.md, what was measured."""

from __future__ import annotations

from pathlib import Path

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError
from torchstone.report.document import Document
from torchstone.report.documents import bottleneck_report, performance_report
from torchstone.report.renderers.md import markdown
from torchstone.report.translation.documents import in_spoken_language
from torchstone.workflows.diagnose.diagnosis import Diagnosis


def write_reports(folder: Path, diagnosis: Diagnosis, run: RunSummary, command: str | None) -> tuple[Path, Path]:
    """Write both into a folder and return their paths. `run`: where the Cases are; `command`: what to type.

    Raises MissingError where they cannot be written.
    """
    bottlenecks, performance = folder / bottleneck_report.FILE, folder / performance_report.FILE
    write_page(bottlenecks, bottleneck_report.bottleneck_report(diagnosis, command))
    write_page(performance, performance_report.of_diagnosis(diagnosis, run))
    return bottlenecks, performance


def write_page(path: Path, document: Document) -> str:
    """Write a Document as Markdown, and return its text. Raises MissingError where it cannot be written."""
    text = markdown(in_spoken_language(document))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise MissingError(f"{path}: the report cannot be written: {fault.strerror}") from None
    return text
