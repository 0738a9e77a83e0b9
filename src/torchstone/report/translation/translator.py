"""Translates texts that were put together in English, by the catalogue's templates.

A text that no template matches whole is cut where texts are put together (joints.py), and each piece is translated by
itself. What no template matches stays as it is: names, numbers, commands, and what strangers wrote. Texts come from
records, so the work on each is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from torchstone.core.schema.axis import AXES
from torchstone.report.translation.catalogue import Catalogue, Template, catalogue
from torchstone.report.translation.joints import Span, Spans, asides, bare, is_paired, joints_of, over

_LONGEST = 2000  # characters of a text; a longer one stays as it is
_DEEPEST = 8  # places in places
_MOST, _WORK = 48, 5000  # pieces of one text that are taken apart, and their characters; the rest stays as it is
_JOINTS = 100  # of one piece: no text of ours has as many
_WORD = re.compile(r"[A-Za-z]{2}")
_QUANTITY = re.compile(
    r"[±+–-]?[\d.,]+(?:e[+-]?\d+)?×?(?: (?:%|°C|min|[nµm]?s|[KMGT]?i?B|[kmµ]?[JW]|[kMG]?Hz|[MGTP]?FLOPs?|\S+/\S+))?"
)
_CERTAIN = re.compile(r"\S*[\d_:/=]\S*|cpu|cuda|rocm|mps|xpu")  # no word of a sentence
_WORDS_OF_A_NAME = 2
_SENTENCE_WORDS = (  # which are in no name of ours
    "a all also an and any are as at be been but by can do does each every for from had has have he here his how if in "
    "into is it its just me most my no none not of on one only or other our out own she some such than that the their "
    "them then there these they this those to too up us very was we were what when where which who whose why will with "
    "would you your"
)
_COMMON = frozenset(_SENTENCE_WORDS.split())


@lru_cache(maxsize=4096)
def translation(text: str, language: str) -> str:
    """Return a text in a language; what of it has no translation stays as it is. Raises UsageError: see catalogue."""
    known = catalogue(language)
    if not known.whole or len(text) > _LONGEST:
        return text
    found = _Attempt(known).piece(text, 0)
    return text if found is None else found.text


def exact(text: str, language: str) -> str:
    """Return the translation of a whole text, or the text: for names, of which no part may be taken for a word."""
    return catalogue(language).whole.get(text, text)


class _Translated(NamedTuple):
    """A translation. `complete`: nothing in it but names and numbers is as it was."""

    text: str
    complete: bool


class _Attempt:
    """The translation of one text. Its functions return None where nothing is known of a text."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._known = catalogue
        self._pieces, self._characters = _MOST, _WORK
        self._seen: dict[str, _Translated | None] = {}
        self._matching: dict[str, list[tuple[Template, tuple[Span, ...]]]] = {}

    def piece(self, text: str, depth: int) -> _Translated | None:
        before, core, after = bare(text)
        if not _WORD.search(core):
            return None
        if core not in self._seen:
            whole = self._whole(core)
            self._seen[core] = _Translated(whole, complete=True) if whole is not None else self._from_parts(core, depth)
        found = self._seen[core]
        return None if found is None else found._replace(text=f"{before}{found.text}{after}")

    def _from_parts(self, core: str, depth: int) -> _Translated | None:
        if " " not in core or depth >= _DEEPEST or _QUANTITY.fullmatch(core):
            return None
        self._pieces -= 1
        self._characters -= len(core)
        return self._parts(core, depth) if self._pieces >= 0 and self._characters >= 0 else None

    def _whole(self, core: str) -> str | None:
        small = (core.lower(), core.capitalize()) if core.isupper() else (core[:1].lower() + core[1:],)
        return next((found for one in (core, *small) if (found := self._known.whole.get(one)) is not None), None)

    def _parts(self, core: str, depth: int) -> _Translated | None:
        """Return the first reading of a text in which all is known, else the first in which something is."""
        at = joints_of(core)
        if len(at.of_clauses) > _JOINTS:
            return None
        early = (
            at.commas and at.colons and at.commas[0] < at.colons[0]
        )  # "a, b: c" may be clauses, of which b: c is one
        readings: tuple[Callable[[], _Translated | None], ...] = (
            lambda: self._matched(core, depth, (*at.ends, *at.halves), at.colons, at.commas),
            lambda: self._cut(core, at.ends, depth),
            lambda: self._around_clauses(core, at.of_clauses, depth),
            lambda: self._cut(core, at.halves, depth),
            lambda: self._labelled(core, at.colons, depth),
            lambda: self._cut(core, at.commas, depth) if early else None,
            lambda: self._cut(core, at.colons, depth),
            lambda: self._cut(core, at.commas, depth),
            lambda: self._matched(core, depth, at.of_clauses, (), (), weak=True),
            lambda: self._matched(core, depth, (), (), ()),
            lambda: self._cut(core, at.conjunctions, depth, _listed),
            lambda: self._cut(core, at.units, depth),
            lambda: self._cut(core, list(asides(core)), depth),
        )
        best: _Translated | None = None
        for reading in readings:
            found = reading()
            if found is not None and found.complete:
                return found
            best = best or found
        return best

    def _matched(
        self, core: str, depth: int, never: Spans, colons: Spans, commas: Spans, *, weak: bool = False
    ) -> _Translated | None:
        """Return the translation by the template with the longest fixed text that matches.

        No place may reach over a joint of `never`, nor the first place of a text over one of `colons`: else a clause
        would end up inside another. So it would where the translation moves what stands at an end of the text: that may
        reach over no joint at all. What is known as a whole is no such danger. `weak`: by weak templates, or by others.
        """
        best: _Translated | None = None
        for template, spans in self._candidates(core):
            if template.weak != weak:
                continue
            loose = [span for span in spans if not self._is_whole(core[slice(*span)], name=weak)]
            first = [span for span in loose if span[0] == 0]
            moved = [span for span in loose if template.moves(span, len(core))]
            if over(loose, never) or over(first, colons) or over(moved, colons) or over(moved, commas):
                continue
            found = self._filled(template, [core[start:end] for start, end in spans], depth)
            if found is not None and found.complete:
                return found
            best = best or found
        return best

    def _candidates(self, core: str) -> list[tuple[Template, tuple[Span, ...]]]:
        """Return the templates that match, with their places, the one with the longest fixed text first."""
        if core not in self._matching:
            shown = dict.fromkeys((core, core[:1].lower() + core[1:]))  # a sentence may begin with any
            near = [one for one in self._known.templates if any(one.needle in text for text in shown)]
            known = ((one, next((at for text in shown if (at := one.spans(text)) is not None), None)) for one in near)
            self._matching[core] = [(one, spans) for one, spans in known if spans is not None]
        return self._matching[core]

    def _may_be_a_name(self, text: str) -> bool:
        """Say whether a text may be a name, a number, or settings: "cnn", "batch_size 8, precision fp32"."""
        words = [[word for word in part.split(" ") if not _CERTAIN.fullmatch(word)] for part in text.split(", ")]
        return all(
            sum(map(str.islower, part)) <= _WORDS_OF_A_NAME and not any(map(self._is_word, part)) for part in words
        )

    def _is_word(self, word: str) -> bool:
        """Say whether a word is one of a sentence, or has a translation; the name of a setting is neither."""
        common = word.lower() in _COMMON and not (len(word) == 1 and word.isupper())  # A and B are sides
        return common or (word in self._known.whole and word not in AXES)

    def _is_whole(self, content: str, *, name: bool) -> bool:
        return self._whole(bare(content)[1]) is not None or (name and self._may_be_a_name(content.strip()))

    def _filled(self, template: Template, contents: list[str], depth: int) -> _Translated | None:
        """Return the translation with these contents.

        None where one has half of a pair of parentheses, and for a weak template where one may be a part of any
        sentence, or where none is certainly a number, a name or a text of ours.
        """
        if any(not is_paired(content) for content in contents):
            return None
        found = [self.piece(content, depth + 1) for content in contents]
        left = [content.strip() for content, new in zip(contents, found, strict=True) if new is None]
        if template.weak and (
            not all(map(self._may_be_a_name, left)) or (len(left) == len(found) and not any(map(_is_certain, left)))
        ):
            return None
        told = [content if new is None else new.text for content, new in zip(contents, found, strict=True)]
        complete = all(new is None or new.complete for new in found) and all(map(self._may_be_a_name, left))
        return _Translated(template.filled(dict(zip(template.numbers, told, strict=True))), complete)

    def _around_clauses(self, core: str, joints: Spans, depth: int) -> _Translated | None:
        """Return the text cut where all that stands before or behind a joint is known as a whole."""
        for start, end in joints:
            parts = (core[:start], core[end:])
            if any(self._whole(bare(part)[1]) is not None for part in parts):
                return self._cut(core, [(start, end)], depth)
        return None

    def _labelled(self, core: str, colons: Spans, depth: int) -> _Translated | None:
        """Return the text cut behind the name that it begins with, or another known text: "gpt2, batch_size 8: …"."""
        if not colons:
            return None
        label = core[: colons[0][0]]
        found = self.piece(label, depth + 1)
        known = found.complete if found is not None else self._may_be_a_name(label)
        return self._cut(core, colons[:1], depth) if known else None

    def _cut(self, core: str, joints: Spans, depth: int, joined: Callable[[str], str] = str) -> _Translated | None:
        """Return the text with the pieces between the joints translated; None where none of them is known."""
        if not joints or len(joints) > _JOINTS:
            return None
        bounds = [(0, 0), *joints, (len(core), len(core))]
        pieces = [core[end:start] for (_, end), (start, _) in pairwise(bounds)]
        found = [self.piece(one, depth + 1) for one in pieces]
        left = [one.strip() for one, new in zip(pieces, found, strict=True) if new is None]
        if len(left) == len(pieces):
            return None
        shown = [one if new is None else new.text for one, new in zip(pieces, found, strict=True)]
        between = [joined(core[start:end]) for start, end in joints]
        text = "".join(word for pair in zip(shown, (*between, ""), strict=True) for word in pair)
        return _Translated(
            text, all(new is None or new.complete for new in found) and all(map(self._may_be_a_name, left))
        )


def _is_certain(text: str) -> bool:
    """Say whether a text is no word of a sentence: a number, a quantity, a setting, a device."""
    return any(map(_CERTAIN.fullmatch, text.split(" ")))


def _listed(joint: str) -> str:
    """Return what stands between the members of a list: no conjunction, which would have to agree with them."""
    return " / " if joint == " or " else ", "
