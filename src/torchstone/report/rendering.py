"""The formats that a Document can be written in: a file each in `renderers/`, whose name is the format's."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Protocol

from torchstone.core.errors import unknown
from torchstone.report import renderers
from torchstone.report.document import Document


class Renderer(Protocol):
    """Writes any Document in one format. `suffix`: of its files, with the dot."""

    describes: str
    suffix: str

    def render(self, document: Document) -> bytes:
        """Return the file. Texts may come from strangers: none may steer a terminal or become markup."""
        ...


def formats() -> tuple[str, ...]:
    """Return the names of all formats, in alphabetical order. Imports none of them."""
    return tuple(sorted(name for _, name, _ in pkgutil.iter_modules(renderers.__path__) if not name.startswith("_")))


def renderer(name: str) -> Renderer:
    """Return the Renderer of a format. Raises UsageError for one that there is not."""
    if name not in formats():
        raise unknown("report format", name, formats())
    found: Renderer = import_module(f"{renderers.__name__}.{name}").RENDERER
    return found
