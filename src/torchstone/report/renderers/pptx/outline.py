"""A Document as slides: the answer first, a slide a section, what does not fit on the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from torchstone.report.document import Document, Doubt, Part, Role, Section, Text
from torchstone.report.renderers.pptx.flow import Flow
from torchstone.report.renderers.pptx.slide import Slide, line_of

_MOST_LINES = 4  # of how it was measured, which stand last of what is said of the whole


def slides(document: Document) -> list[Slide]:
    """Return the slides, 40 at most; the last one then says that there is more."""
    parts = list(_opened(document.parts))
    answers = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.HEADLINE, parts))
    about = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.BODY, parts[len(answers) :]))
    flow = Flow(line_of(document.title) or "Report", _how(about))
    for part in (*answers, *about):
        flow.put(part)
    loose: list[Part] = []
    for part in parts[len(answers) + len(about) :]:
        if isinstance(part, Section) and not part.folded:
            flow.topic(_title_of(loose, document), loose)
            loose = []
            flow.topic(part.title, part.parts)
        else:
            loose.append(part)
    flow.topic(_title_of(loose, document), loose)
    return flow.ended()


def _opened(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, those of sections without a title as well."""
    for part in parts:
        if isinstance(part, Section) and not part.title and not part.folded:
            yield from _opened(part.parts)
        else:
            yield part


def _how(about: Sequence[Part]) -> tuple[str, ...]:
    said = tuple(line_of(part.text) for part in about[-_MOST_LINES:] if isinstance(part, Text))
    return ("How it was measured:", *said) if said else ()


def _title_of(parts: Sequence[Part], document: Document) -> str:
    if any(isinstance(part, Doubt) for part in parts):
        return "Findings"
    is_told = bool(parts) and all(isinstance(part, Text) and part.role == Role.NOTE for part in parts)
    return "Notes" if is_told else document.title
