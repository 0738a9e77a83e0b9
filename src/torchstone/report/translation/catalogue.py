"""Catalogues of report texts in other languages: gettext's files, whose msgids are texts with numbered places.

A msgid is written as the source writes it, less the punctuation around it: "{0} of {1} cases unclear". An
ending that depends on a number is in parentheses: "trial(s)", "(is|are)". tests/translatable.py lists them all.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import unknown
from torchstone.report.translation.joints import Span

ENGLISH = "en"
DOMAIN = "torchstone"
LOCALE = Path(__file__).parent.parent / "locale"
_PLACE = re.compile(r"\{(\d+)\}")
_NAMED = re.compile(r"\{([a-z_]\w*)(?::([^}]*))?\}")
_ENDING = re.compile(r"\((s|es|[a-z]*(?:\|[a-z]*)+)\)")
_WEAK, _WEAKEST = 7, 4  # letters: with fewer a template could be part of any text; so many where it begins with words
_ANCHORED = 8  # characters that a beginning is worth: what begins otherwise is not taken for the content of a place
_SUFFIX = re.compile(r" ?[(\[]|[,;:] |\.(?: |$)")  # what an optional ending begins with
_FIRST = re.compile(r"\{\d+\} (?=[A-Z가-힣{])")  # a sentence before another one
_WORDS = re.compile(r"[A-Za-z]{2}\S* .*[A-Za-z]{2}")  # more than one word


class Template:
    """A msgid with places, and its translation.

    `strength`: characters of its fixed text, more where it begins with it. `weak`: it has few letters. `needle`: a part
    of every text that it matches.
    """

    def __init__(self, msgid: str, translation: str) -> None:
        parts = _PLACE.split(msgid)
        self.translation = translation
        self.numbers = tuple(map(int, parts[1::2]))
        self._fixed = tuple(map(_variants, parts[::2]))
        self.strength = sum(len(variants[-1]) for variants in self._fixed) + _ANCHORED * bool(parts[0])
        self._kept = (translation.startswith(f"{{{parts[1]}}}"), translation.endswith(f"{{{parts[-2]}}}"))
        letters = sum(c.isalpha() for c in "".join(parts[::2]))
        self.weak = letters < (_WEAK if not parts[0] else _WEAKEST)
        self.needle = max((variants[-1] for variants in self._fixed if len(variants) == 1), key=len, default="")

    def spans(self, text: str) -> tuple[Span, ...] | None:
        """Return where the places lie in a text that the template matches, else None; each is as short as it can be.

        As places hold anything, the leftmost place of each fixed part is as good as any other: no way back is needed,
        and the time is linear in the text.
        """
        first, *inner, last = self._fixed
        head = next((len(one) for one in first if text.startswith(one)), None)
        if head is None:
            return None
        at, found = head, []
        for fixed in inner:
            places = [(where, -len(one)) for one in fixed if (where := text.find(one, at)) >= 0]
            if not places:
                return None
            where, negative = min(places)
            found.append((at, where))
            at = where - negative
        tail = next((len(text) - len(one) for one in last if text.endswith(one) and len(text) - len(one) >= at), None)
        return None if tail is None else self._parted(text, [*found, (at, tail)])

    def _parted(self, text: str, spans: list[Span]) -> tuple[Span, ...]:
        """Return the spans with those of neighbours parted where the second, which is optional, may begin."""
        for number in reversed(range(len(spans) - 1)):
            if self._fixed[number + 1] == ("",):
                (start, _), (_, end) = spans[number : number + 2]
                suffix = _SUFFIX.search(text, start + 1, end)
                at = end if suffix is None else suffix.start()
                spans[number : number + 2] = [(start, at), (at, end)]
        return tuple(spans)

    def moves(self, span: Span, length: int) -> bool:
        """Say whether a span at an end of a text of this length stands elsewhere in the translation."""
        first, last = self._kept
        return (span[0] == 0 and not first) or (span[1] == length and not last)

    def filled(self, contents: dict[int, str]) -> str:
        """Return the translation with these contents in its places."""
        return _PLACE.sub(lambda place: contents.get(int(place[1]), ""), self.translation)


def _variants(fixed: str) -> tuple[str, ...]:
    """Return the wordings of a fixed part, the longest first: "trial(s)" → "trials", "trial"."""
    parts = _ENDING.split(fixed)
    choices = [("", part) if part in ("s", "es") else tuple(part.split("|")) for part in parts[1::2]]
    joined = {
        "".join(word for pair in zip(parts[::2], (*choice, ""), strict=True) for word in pair)
        for choice in product(*choices)
    }
    return tuple(sorted(joined, key=lambda one: (-len(one), one)))


class Catalogue(NamedTuple):
    """What is known of one language: whole texts, and templates, the one with the longest fixed text first.

    `texts`: the entries as they are, for who has the values in their places (core/messages.py).
    """

    whole: dict[str, str]
    templates: tuple[Template, ...]
    texts: Mapping[str, str]


def languages() -> tuple[str, ...]:
    """Return the names of the languages, English first."""
    return (ENGLISH, *sorted(path.parts[-3] for path in LOCALE.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")))


def checked_language(name: str) -> str:
    """Return the name. Raises UsageError for a language that there is not."""
    if name not in languages():
        raise unknown("language", name, languages())
    return name


@cache
def catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language; an empty one for English. Raises UsageError for an unknown language."""
    if checked_language(language) == ENGLISH:
        return Catalogue({}, (), {})
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as file:
        entries: dict[str, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    whole: dict[str, str] = {}
    templates = []
    unnamed = dict(numbered(msgid, translation) for msgid, translation in entries.items())
    for msgid, translation in (*_clauses(unnamed), *unnamed.items()):
        if _PLACE.search(msgid):
            templates.append(Template(msgid, translation))
        elif msgid:
            whole.update(dict.fromkeys(_variants(msgid), translation))
    return Catalogue(whole, tuple(sorted(templates, key=lambda one: -one.strength)), entries)


def numbered(msgid: str, translation: str) -> tuple[str, str]:
    """Return a text and its translation with numbers for the names of places, and nouns with both of their endings."""
    numbers: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        number = f"{{{numbers.setdefault(found[1], len(numbers))}}}"
        one, joint, more = (found[2] or "").partition("|")
        return f"{number} {_both(one, more)}" if joint else number

    return _NAMED.sub(place, msgid), _NAMED.sub(place, translation)


def _both(one: str, more: str) -> str:
    if more == f"{one}s":
        return f"{one}(s)"
    (kept, one), (_, more) = one.rsplit(" ", 1), more.rsplit(" ", 1)
    return f"{kept} {one}(s)" if more == f"{one}s" else f"{kept} ({one}|{more})"


def _clauses(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield parts of entries as entries of their own: clauses between joints that an entry and its translation share.

    The source puts texts together in other ways, too: what stands behind "{0}: " may have a "; " of its own.
    """
    for msgid, translation in entries.items():
        for joint in ("; ", ": ", ", "):
            parts, translated = msgid.split(joint), translation.split(joint)
            alike = len(parts) == len(translated) > 1 and all(
                set(_PLACE.findall(one)) == set(_PLACE.findall(other))
                for one, other in zip(parts, translated, strict=True)
            )
            if alike and (joint != ", " or not _PLACE.sub("", parts[0])):
                known = list(zip(parts, translated, strict=True))
                yield from ((one, other) for one, other in known if _WORDS.search(_PLACE.sub("", one)))
        here, there = _FIRST.match(msgid), _FIRST.match(translation)
        if here is not None and there is not None and here[0] == there[0] and msgid[here.end()].isupper():
            yield msgid[here.end() :], translation[there.end() :]
