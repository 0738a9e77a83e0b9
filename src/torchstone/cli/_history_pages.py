"""The page of a history branch: `torchstone report --history DIR`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchstone.core.charts.picture import Picture
    from torchstone.report.document import Part
    from torchstone.report.rendering import Renderer

_NAME = "history"


def write_pages(history: Path, there: Path, renderers: Sequence[Renderer]) -> list[Path]:
    """Write the page in each format, and its pictures, into a folder; return the files.

    Raises UsageError where the history cannot be read or the files not written, MissingError without vl-convert.
    """
    from torchstone.analysis.ci.history import traces
    from torchstone.core.charts.drawing import draw
    from torchstone.report.documents.ci_history import ci_history_document
    from torchstone.storage.ci_folder import read_history

    entries = read_history(history)
    document = ci_history_document(traces(entries), len(entries))
    written = []
    try:
        there.mkdir(parents=True, exist_ok=True)
        for one in renderers:
            path = there / f"{_NAME}{one.suffix}"
            path.write_bytes(one.render(document))
            written.append(path)
        written += [draw(picture, there / name) for name, picture in _pictures(document.parts)]
    except OSError as fault:
        raise UsageError(f"cannot write into {there}: {fault.strerror}") from None
    return written


def _pictures(parts: Sequence[Part]) -> Iterator[tuple[str, Picture]]:
    from torchstone.report.document import Chart, Section

    for part in parts:
        if isinstance(part, Chart):
            yield f"{part.name}{part.suffix}", part.picture
        elif isinstance(part, Section):
            yield from _pictures(part.parts)
