"""The formats that a Document can be written in: a file each in `renderers/`, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from torchstone.core.errors import MissingError
from torchstone.core.own_files import write_whole
from torchstone.plugins import registry
from torchstone.report.document import Chart, Document, Part, Renderer, Section

FOR_PROGRAMS = ("json", "csv")  # formats that are always English


def formats() -> tuple[str, ...]:
    """Return the names of all formats, in alphabetical order. Imports none of them."""
    return registry.names("renderers")


def renderer(name: str) -> Renderer:
    """Return the Renderer of a format. Raises UsageError for one that there is not, MissingError as `registry.load`."""
    found: Renderer = registry.load("renderers", name)
    return found


def rendered_files(one: Renderer, document: Document, stem: str) -> Mapping[str, bytes]:
    """Return what a renderer makes of a Document: the one file, or those in a folder, by path. `stem`: of its name."""
    if one.folder is not None:
        return {f"{stem}{one.folder}/{name}": data for name, data in one.files(document).items()}
    return {f"{stem}{one.suffix}": one.render(document)}


def write_markdown(path: Path, document: Document, below: Path | None = None) -> str:
    """Write a Document as Markdown, in the language that is spoken, through no link `below` a folder; return the text.

    It shows the pictures that lie beside it. Raises MissingError where it cannot be written.
    """
    from torchstone.report.translation.documents import in_spoken_language

    shown = structs.replace(document, parts=tuple(_with_pictures(document.parts, path.parent)))
    page = renderer("md").render(in_spoken_language(shown))
    try:
        write_whole(path, page, below)
    except OSError as fault:
        raise MissingError(f"{path}: the report cannot be written: {fault.strerror}") from None
    return page.decode()


def _with_pictures(parts: Sequence[Part], folder: Path) -> Iterator[Part]:
    """Yield the parts without pictures that are no file of a folder, and without sections of which nothing is left."""
    for part in parts:
        if isinstance(part, Section) and part.parts:
            if left := tuple(_with_pictures(part.parts, folder)):
                yield structs.replace(part, parts=left)
        elif not isinstance(part, Chart) or (folder / f"{part.name}{part.suffix}").is_file():
            yield part
