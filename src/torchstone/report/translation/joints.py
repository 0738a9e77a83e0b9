"""Where texts are put together: ends of sentences, punctuation between clauses, parentheses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]
Spans = Sequence[Span]

_PUNCTUATION = " ,;:."
_NESTED = 3  # parentheses around a text
_OPENING, _CLOSING = "([{", ")]}"
_ASIDE = re.compile(r" [(\[]")
_JOINTS = tuple(
    map(
        re.compile,
        (
            r"\. (?=[A-Z0-9`\"'])",
            "; | · ",
            ": ",
            ", ",
            r" (?:and|or|with) ",
            r"(?<=[a-z)]) (?=(?:ms|s|GB/s|[a-z]+/s)$)",
        ),
    )
)


class Joints(NamedTuple):
    """The joints of a text that stand in no parentheses.

    `ends` of sentences, `halves` of them (; ·), `colons`, `commas`, conjunctions, blanks before a unit at the end.
    """

    ends: Spans
    halves: Spans
    colons: Spans
    commas: Spans
    conjunctions: Spans
    units: Spans

    @property
    def of_clauses(self) -> Spans:
        """Those between sentences and clauses."""
        return sorted((*self.ends, *self.halves, *self.colons, *self.commas))


def joints_of(text: str) -> Joints:
    """Return the joints, in linear time."""
    depths = _depths(text)
    return Joints(*([one.span() for one in joint.finditer(text) if depths[one.start()] == 0] for joint in _JOINTS))


def bare(text: str) -> tuple[str, str, str]:
    """Return what stands before a text, the text itself, and what stands behind it: punctuation, and parentheses."""
    begin, end = 0, len(text)
    for _ in range(_NESTED):
        core = text[begin:end]
        begin, end = end - len(core.lstrip(_PUNCTUATION)), begin + len(core.rstrip(_PUNCTUATION))
        core = text[begin:end]
        if not core.startswith(("(", "[")) or _closing(core) != len(core) - 1:
            break
        begin, end = begin + 1, end - 1
    return text[:begin], text[begin:end], text[max(begin, end) :]


def over(spans: Spans, joints: Spans) -> bool:
    """Say whether one of the spans reaches over one of the joints; a joint that a span begins with is no such."""
    return any(start < first < end for start, end in spans for first, _ in joints)


def is_paired(text: str) -> bool:
    """Say whether each parenthesis in a text has the other one in it."""
    depth = 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth < 0:
            return False
    return depth == 0


def asides(text: str) -> Iterator[Span]:
    """Yield where parentheses and brackets behind a blank begin and end: " (…)" is a piece of its own."""
    found = _ASIDE.search(text)
    while found is not None:
        begin = found.start()
        end = _closing(text[begin + 1 :])
        if end < 0:
            return
        yield begin, begin + 2
        yield begin + 1 + end, begin + 2 + end
        found = _ASIDE.search(text, begin + 2 + end)


def _depths(text: str) -> list[int]:
    """Return in how many parentheses each character stands; 0 for all where they do not match."""
    found, depth = [], 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth < 0:
            return [0] * len(text)
        found.append(depth)
    return found if depth == 0 else [0] * len(text)


def _closing(text: str) -> int:
    """Return where the parenthesis, or bracket, that a text begins with closes; -1 where it does not."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0:
            return place
    return -1
