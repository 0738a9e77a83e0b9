"""Print a stored run: every figure with its 95 % confidence interval, the findings; --full: every figure."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._parsing import add_json

if TYPE_CHECKING:
    from torchstone.analysis.compare.ab_course import Course
    from torchstone.analysis.summary import RunSummary
    from torchstone.core.schema.trial import Trial


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of show."""
    parser.add_argument("run", nargs="?", default="latest", help="path, id, unique prefix, name, or latest (default)")
    parser.add_argument(
        "--full", action="store_true", help="print the whole report: system, device, model, data, every figure"
    )
    parser.add_argument(
        "--apply", type=Path, metavar="FILE", help="write the best settings of a tune into this YAML, JSON or TOML file"
    )
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Print the run."""
    from torchstone.analysis.compare.ab_course import course_recorded
    from torchstone.analysis.summary import summarize
    from torchstone.storage.query import find, read_run

    summary = summarize(find(folder_of(options), options.run))
    if options.apply is not None:
        from torchstone.cli._applying import apply

        apply(options.apply, summary)
        return 0
    contested = read_run(Path(summary.record)).trials if summary.comparison is not None else ()
    course = course_recorded(contested) if summary.comparison is not None else None
    if options.json:
        from torchstone.cli._json import print_json
        from torchstone.cli._run_json import whole

        print_json(whole(summary, course))
        return 0
    _print(summary, contested, course, every=options.full)
    return 0


def _print(summary: RunSummary, contested: tuple[Trial, ...], course: Course | None, *, every: bool) -> None:
    from torchstone.cli._render import show_document
    from torchstone.report.documents.ab import ab_document
    from torchstone.report.documents.run import run_document

    answer = None
    if summary.comparison is not None and course is not None:
        answer = ab_document(summary.comparison, contested, summary.cases, course).parts
    show_document(run_document(summary, every=every, answer=answer), every=every)
