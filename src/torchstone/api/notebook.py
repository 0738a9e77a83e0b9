"""What a notebook shows of a result: its Document as a part of the page, with pictures of what was measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import TorchstoneError
from torchstone.report.document import Document, Part, Role, Text
from torchstone.report.documents.run import run_document
from torchstone.report.documents.run_pictures import pictured_part, run_pictures
from torchstone.storage.query import read_run
from torchstone.storage.training import metrics_of


class ShownRun(RunSummary, frozen=True):
    """A RunSummary that a notebook shows with its pictures."""

    def _repr_html_(self) -> str | None:
        return as_html(lambda: document_of(self))


def shown(summary: RunSummary) -> ShownRun:
    """Return the same summary as one that a notebook shows."""
    return ShownRun(**{name: getattr(summary, name) for name in summary.__struct_fields__})


def as_html(make: Callable[[], Document]) -> str | None:
    """Return a Document as HTML, in the language of $TORCHSTONE_LANG.

    None without Jinja2 (pip install 'torchstone[report]'): a notebook shows the text.
    """
    if importlib.util.find_spec("jinja2") is None:
        return None
    from torchstone.report.renderers.html.fragment import fragment
    from torchstone.report.translation.documents import in_spoken_language

    return fragment(in_spoken_language(make()))


def document_of(summary: RunSummary, more: Sequence[Part] = ()) -> Document:
    """Return the Document of a run with its pictures, or why there are none. `more`: parts behind the answer's."""
    found = run_document(summary, pictures=_pictures(summary))
    return Document(found.title, (*found.parts, *more))


def _pictures(summary: RunSummary) -> Sequence[Part]:
    """Return the pictures. Reads the record, since its raw values are shown."""
    try:
        run = read_run(Path(summary.record), pictured_part(summary))
        return run_pictures(summary, run, metrics_of(summary.run_id, summary.procedure.fit))
    except (TorchstoneError, OSError) as fault:  # the record was moved: its figures are here, and can be shown
        return (Text(f"no pictures: {fault}", Role.DETAIL),)
