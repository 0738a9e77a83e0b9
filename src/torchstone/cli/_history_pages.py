"""The page of a history branch: `torchstone report --history DIR`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import folder_of
from torchstone.cli._parsing import words_of
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from torchstone.core.charts.picture import Picture
    from torchstone.report.document import Part

_NAME = "history"


def run(options: argparse.Namespace) -> int:
    """Write the page in each format, and its pictures beside it; print the names of the files."""
    from torchstone.analysis.ci.history import traces
    from torchstone.core.charts.drawing import draw
    from torchstone.report.documents.ci_history import ci_history_document
    from torchstone.report.rendering import renderer
    from torchstone.storage.ci_folder import read_history

    renderers = [renderer(name) for name in words_of(options.format) or ["md"]]
    entries = read_history(options.history)
    document = ci_history_document(traces(entries), len(entries))
    there: Path = options.output or folder_of(options) / "reports"
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
    print("\n".join(map(str, written)))
    return ExitCode.DONE


def _pictures(parts: Sequence[Part]) -> Iterator[tuple[str, Picture]]:
    from torchstone.report.document import Chart, Section

    for part in parts:
        if isinstance(part, Chart):
            yield f"{part.name}{part.suffix}", part.picture
        elif isinstance(part, Section):
            yield from _pictures(part.parts)
