"""Translates texts that were put together in English, by the catalogue's templates.

A text that no template matches whole is cut where texts are put together: at the ends of sentences, at "; ", ": ", ", " and
at parentheses, and each piece is translated by itself. What no template matches stays as it is: names, numbers, commands,
and what strangers wrote. Texts come from records, so the work on each is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from torchstone.report.translation.catalogue import Catalogue, Span, Template, catalogue

_LONGEST = 2000  # characters of a text; a longer one stays as it is
_DEEPEST = 8  # places in places
_MOST, _WORK = 120, 12_000  # pieces of one text that are taken apart, and their characters; the rest stays as it is
_JOINTS = 100  # of one piece: no text of ours has as many
_PUNCTUATION = " ,;:."
_NESTED = 3  # parentheses around a text
_WORD = re.compile(r"[A-Za-z]{2}")
_QUANTITY = re.compile(r"[±+–-]?[\d.,]+(?:e[+-]?\d+)?×?(?: \S+)?")
_SENTENCE = re.compile(r"\. (?=[A-Z0-9`\"'])")
_SEMICOLON, _COLON, _COMMA = (re.compile(re.escape(joint)) for joint in ("; ", ": ", ", "))
_AND = re.compile(r" (?:and|or) ")
_OPENING, _CLOSING = "([{", ")]}"

Joints = Sequence[Span]


@lru_cache(maxsize=4096)
def translation(text: str, language: str) -> str:
    """Return a text in a language; what of it has no translation stays as it is. Raises UsageError: see catalogue."""
    known = catalogue(language)
    if not known.whole or len(text) > _LONGEST:
        return text
    return _Attempt(known).piece(text, 0) or text


def exact(text: str, language: str) -> str:
    """Return the translation of a whole text, or the text: for names, of which no part may be taken for a word."""
    return catalogue(language).whole.get(text, text)


def bare(text: str) -> tuple[str, str, str]:
    """Return what stands before a text, the text itself, and what stands behind it: punctuation, and parentheses."""
    begin, end = 0, len(text)
    for _ in range(_NESTED):
        core = text[begin:end]
        begin, end = end - len(core.lstrip(_PUNCTUATION)), begin + len(core.rstrip(_PUNCTUATION))
        core = text[begin:end]
        if not core.startswith("(") or _closing(core) != len(core) - 1:
            break
        begin, end = begin + 1, end - 1
    return text[:begin], text[begin:end], text[max(begin, end) :]


class _Attempt:
    """The translation of one text. Its functions return None where nothing is known of a text."""

    def __init__(self, known: Catalogue) -> None:
        self._known = known
        self._pieces, self._characters = _MOST, _WORK

    def piece(self, text: str, depth: int) -> str | None:
        before, core, after = bare(text)
        if not _WORD.search(core):
            return None
        found = self._whole(core)
        if found is None and " " in core and depth < _DEEPEST and not _QUANTITY.fullmatch(core):
            self._pieces -= 1
            self._characters -= len(core)
            if self._pieces >= 0 and self._characters >= 0:
                found = self._parts(core, depth)
        return None if found is None else f"{before}{found}{after}"

    def _whole(self, core: str) -> str | None:
        found = self._known.whole.get(core)
        return found if found is not None else self._known.whole.get(core[:1].lower() + core[1:])

    def _parts(self, core: str, depth: int) -> str | None:
        depths = _depths(core)
        ends, halves, colons, commas = (
            [found.span() for found in joint.finditer(core) if depths[found.start()] == 0]
            for joint in (_SENTENCE, _SEMICOLON, _COLON, _COMMA)
        )
        if len(ends) + len(halves) + len(colons) + len(commas) > _JOINTS:
            return None
        tries: tuple[Callable[[], str | None], ...] = (
            lambda: self._matched(core, depth, (*ends, *halves), colons, commas),
            lambda: self._cut(core, ends, depth),
            lambda: self._cut(core, halves, depth),
            lambda: self._cut(core, colons, depth),
            lambda: self._matched(core, depth, (), (), commas) if ends or halves or colons else None,
            lambda: self._cut(core, commas, depth),
            lambda: self._cut(core, list(_asides(core)), depth),
            lambda: self._cut(core, [found.span() for found in _AND.finditer(core)], depth, _listed),
        )
        return next((found for one in tries if (found := one()) is not None), None)

    def _matched(self, core: str, depth: int, never: Joints, colons: Joints, commas: Joints) -> str | None:
        """Return the translation by the template with the longest fixed text that matches.

        No place may reach over a joint of `never`, the first place of a text over none of `colons`, and those of a weak
        template over any: else a clause would end up inside another.
        """
        for shown in dict.fromkeys((core, core[:1].lower() + core[1:])):
            for template in [one for one in self._known.templates if one.needle in shown]:
                spans = template.spans(shown)
                if spans is None or _over(spans, never) or (spans[0][0] == 0 and _over(spans[:1], colons)):
                    continue
                if template.weak and (_over(spans, colons) or _over(spans, commas)):
                    continue
                found = self._filled(template, [core[start:end] for start, end in spans], depth)
                if found is not None:
                    return found
        return None

    def _filled(self, template: Template, contents: list[str], depth: int) -> str | None:
        """Return the translation with these contents; None for a weak template where one of them may be anything."""
        told: dict[int, str] = {}
        for number, content in zip(template.numbers, contents, strict=True):
            found = self.piece(content, depth + 1)
            if found is None and template.weak and " " in content.strip() and not _QUANTITY.fullmatch(content.strip()):
                return None
            told[number] = content if found is None else found
        return template.filled(told)

    def _cut(
        self, core: str, joints: Joints, depth: int, joined: Callable[[str], str] = lambda joint: joint
    ) -> str | None:
        """Return the text with the pieces between the joints translated; None where none of them is known."""
        if not joints or len(joints) > _JOINTS:
            return None
        bounds = [(0, 0), *joints, (len(core), len(core))]
        pieces = [core[end:start] for (_, end), (start, _) in pairwise(bounds)]
        found = [self.piece(one, depth + 1) for one in pieces]
        if all(one is None for one in found):
            return None
        shown = [one if new is None else new for one, new in zip(pieces, found, strict=True)]
        between = [joined(core[start:end]) for start, end in joints]
        return "".join(word for pair in zip(shown, (*between, ""), strict=True) for word in pair)


def _listed(joint: str) -> str:
    """Return what stands between the members of a list: no conjunction, which would have to agree with them."""
    return ", " if joint == " and " else " / "


def _over(spans: Joints, joints: Joints) -> bool:
    return any(start <= first < end for start, end in spans for first, _ in joints)


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
    """Return where the parenthesis that a text begins with closes; -1 where it does not."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place
    return -1


def _asides(text: str) -> Iterator[Span]:
    """Yield where parentheses behind a blank begin and end: " (…)" is a piece of its own."""
    at = text.find(" (")
    while at >= 0:
        end = _closing(text[at + 1 :])
        if end < 0:
            return
        yield at, at + 2
        yield at + 1 + end, at + 2 + end
        at = text.find(" (", at + 2 + end)
