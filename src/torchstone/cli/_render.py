"""Prints a Document on the terminal, as wide as that is."""

from __future__ import annotations

import shutil

from torchstone.report.document import Document


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def show_document(document: Document, width: int | None = None, *, every: bool = False) -> None:
    """Print the Document to stdout, in the language that is spoken. `every`: with what is folded."""
    from torchstone.report.renderers.terminal import terminal
    from torchstone.report.translation.documents import in_spoken_language

    print(terminal(in_spoken_language(document), width or terminal_width(), every=every), end="")
