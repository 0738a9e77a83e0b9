"""What commands print: one JSON document, or a Document on the terminal; `--save` keeps results that are no runs."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchstone.cli._place import folder_of, writable
from torchstone.core.units import plain

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary
    from torchstone.core.schema.diagnosis import Diagnosis
    from torchstone.report.document import Document
    from torchstone.report.pictures import Specifications


def add_json(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Add --json. `default`: argparse.SUPPRESS where another parser has the flag, and its value, already."""
    parser.add_argument(
        "--json", action="store_true", default=default, help="print one JSON document on stdout, nothing else"
    )


def print_json(term: object) -> None:
    """Print a term as JSON, and nothing else."""
    from torchstone.core.schema.codec import encode, with_texts

    sys.stdout.buffer.write(encode(with_texts(term)) + b"\n")
    sys.stdout.buffer.flush()


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def show_document(document: Document, width: int | None = None, *, every: bool = False) -> None:
    """Print the Document to stdout, in the language that is spoken. `every`: with what is folded."""
    from torchstone.report.renderers.terminal import terminal
    from torchstone.report.translation.documents import in_spoken_language

    print(terminal(in_spoken_language(document), width or terminal_width(), every=every), end="")


class StatusLine:
    """One line on stderr that each text overwrites; nothing where stderr is no terminal, or `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Print a text in place of the one before."""
        if self._shown:
            print(f"\r\x1b[2K{plain(text)}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        """Leave an empty line."""
        self.show("")


def run_json(run: RunSummary) -> Mapping[str, Any]:
    """Return the summary with the keys of its readings: advice, convergence, performance_…; a goodput has `goodput`.

    What has a text has its English one beside its id and values.
    """
    from msgspec.structs import asdict

    from torchstone.analysis.advice.insights import readings
    from torchstone.analysis.goodput import goodputs
    from torchstone.core.schema.diagnosis import Diagnosis
    from torchstone.core.schema.procedure import SEARCH
    from torchstone.report.diagnosis_messages import with_texts

    more: dict[str, Any] = {}
    if isinstance(run.answer, Diagnosis):
        more["answer"] = diagnosis_json(run.answer)
    elif run.answer is not None:
        more["answer"] = with_texts(run.answer)
    if run.command[:1] == (SEARCH,):
        more["goodput"] = goodputs(run)
    read = asdict(readings(run))
    cases = [{**asdict(case), "bound": with_texts(case.bound)} for case in run.cases]
    more |= {name: with_texts(read[name]) for name in ("advice", "convergence")}
    return {**asdict(run), "cases": cases, **read, **more}


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis; each cause with what its removal could gain at most."""
    from torchstone.report.diagnosis_messages import with_texts

    document: dict[str, Any] = with_texts(diagnosis)
    for shown, cause in zip(document["causes"], diagnosis.causes, strict=True):
        shown["bound"] = cause.bound
    document["fed"] = {name: value for name, value in document["fed"].items() if value not in (None, [], {})}
    return document


def document_of(
    summary: RunSummary,
    *,
    every: bool,
    pictures: bool = False,
    reported: tuple[int, int] | None = None,
    drawing: Sequence[Specifications] = (),
) -> Document:
    """Return the Document of a run. `every`: every figure of every case; `pictures`: charts, as a terminal has not.

    `reported`: only the cases from this place up to that one have every figure, for a page of many cases. `drawing`:
    what the formats draw of charts, which is begun meanwhile.
    """
    from torchstone.report.documents.run import run_document

    if not pictures:
        return run_document(summary, every=every, reported=reported)
    from torchstone.analysis.advice.trainings import curves_of
    from torchstone.report.documents.run import pictured_part, run_pictures
    from torchstone.report.pictures import begin_drawing
    from torchstone.storage.query import read_run
    from torchstone.storage.training import metrics_of

    run = read_run(Path(summary.record), pictured_part(summary))  # whose raw values are drawn
    charts = run_pictures(summary, run, metrics_of(summary.run_id, summary.procedure.fit))
    curves = curves_of(run)
    begin_drawing(charts, drawing)
    return run_document(summary, every=every, pictures=charts, reported=reported, curves=curves)


def add_save(parser: argparse.ArgumentParser) -> None:
    """Add --save."""
    parser.add_argument(
        "--save",
        action="store_true",
        help="also write the result into analysis/ of the output folder: JSON, for `torchstone show` and `report`, "
        "and Markdown",
    )


def check_save(options: argparse.Namespace) -> None:
    """Raise UsageError where --save could not write: before anything is computed."""
    if options.save:
        writable(folder_of(options))


def print_result(
    options: argparse.Namespace, kind: str, value: Any, *, document: Document | None = None, every: bool = False
) -> None:
    """Write the result if --save was given, and print it, with the files that were written.

    `document`: in place of what the value alone gives; `every`: with what is folded.
    """
    from torchstone.report.document import Document, Fields
    from torchstone.report.results import Result, save_result

    result = Result(kind, value)
    files = save_result(result, folder_of(options)) if options.save else ()
    if options.json:
        print_json(result.json())
        return
    shown = result.document() if document is None else document
    if files:
        shown = Document(shown.title, (*shown.parts, Fields(tuple(("written", str(path)) for path in files))))
    show_document(shown, every=every)
