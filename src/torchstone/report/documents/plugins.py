"""What there is to choose from as a Document: recipes, plug-ins of every family, axes, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchstone.report.document import Document, Fields, Section


def plugins_document(lists: Mapping[str, Sequence[tuple[str, str]]]) -> Document:
    """Return a section a list. `lists`: by title, each name with its meaning."""
    return Document("Available", tuple(Section(title, (Fields(tuple(rows)),)) for title, rows in lists.items()))
