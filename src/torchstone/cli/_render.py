"""Prints a Document on the terminal, as wide as that is."""

from __future__ import annotations

import shutil

from torchstone.report.document import Document


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def show_document(document: Document, width: int | None = None, *, every: bool = False) -> None:
    """Print the Document to stdout. `every`: with what is folded."""
    from torchstone.report.renderers.terminal import terminal

    print(terminal(document, width or terminal_width(), every=every), end="")
