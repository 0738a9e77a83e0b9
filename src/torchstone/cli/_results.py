"""`--save`: results that are no runs, printed and kept."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from torchstone.cli._folder import folder_of, writable

if TYPE_CHECKING:
    from torchstone.report.document import Document


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

    `document`: what is said of it, where that is more than the value says; `every`: with what is folded.
    """
    from torchstone.report.results import Result, save

    result = Result(kind, value)
    files = save(result, folder_of(options)) if options.save else ()
    if options.json:
        from torchstone.cli._json import print_json

        print_json(result.json())
        return
    from torchstone.cli._render import show_document
    from torchstone.report.document import Document, Facts

    found = result.document() if document is None else document
    if files:
        found = Document(found.title, (*found.parts, Facts(tuple(("written", str(path)) for path in files))))
    show_document(found, every=every)
