"""A Document as slides: the answer first, a slide a section, what does not fit on the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile, zip_longest

from torchstone.report.document import Document, Doubt, Part, Role, Section, Text
from torchstone.report.renderers.pptx.flow import Flow
from torchstone.report.renderers.pptx.slide import Slide, line_of
from torchstone.report.translation.spoken import said

_MOST_LINES = 6  # of what is said of the whole


def slides(document: Document) -> list[Slide]:
    """Return the slides, 40 at most; the last one then says that there is more."""
    parts = list(_opened(document.parts))
    answers = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.HEADLINE, parts))
    about = _about(parts[len(answers) :])
    flow = Flow(line_of(document.title) or said("Report"), _how(about))
    for part in (*answers, *about):
        flow.put(part)
    loose: list[Part] = []
    for part in parts[len(answers) :]:
        if any(part is one for one in about):
            continue
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


def _about(parts: Sequence[Part]) -> list[Part]:
    """Return texts that stand beside each other: what was measured, on which machine, when and how.

    These are the first two or more without details; else what stands right below the answer.
    """
    groups = [(is_said, list(group)) for is_said, group in groupby(parts, _is_said)]
    for (is_said, group), following in zip_longest(groups, groups[1:]):
        if is_said and len(group) > 1 and not (following is not None and _is_detail(following[1][0])):
            return group[:_MOST_LINES]
    return groups[0][1][:_MOST_LINES] if groups and groups[0][0] else []


def _is_detail(part: Part) -> bool:
    return isinstance(part, Text) and part.role == Role.DETAIL


def _is_said(part: Part) -> bool:
    """Say whether a part is a text of its own, and does not introduce the next one."""
    return isinstance(part, Text) and part.role == Role.BODY and not part.text.endswith(":")


def _how(about: Sequence[Part]) -> tuple[str, ...]:
    told = tuple(line_of(part.text) for part in about if isinstance(part, Text))
    return (f"{said('How it was measured')}:", *told) if told else ()


def _title_of(parts: Sequence[Part], document: Document) -> str:
    if any(isinstance(part, Doubt) for part in parts):
        return said("Findings")
    is_told = bool(parts) and all(isinstance(part, Text) and part.role == Role.NOTE for part in parts)
    return said("Notes") if is_told else document.title
