"""Catalogues of report texts in other languages: gettext's files, whose msgids are texts with numbered places.

A msgid is written as the source writes it, less the punctuation around it: "{0} of {1} cases have no result". An ending
that depends on a number is in parentheses: "trial(s)", "(is|are)". tests/translatable.py lists the msgids of the source.
"""

from __future__ import annotations

import gettext
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import unknown

ENGLISH = "en"
DOMAIN = "torchstone"
LOCALE = Path(__file__).parent.parent / "locale"
_PLACE = re.compile(r"\{(\d+)\}")
_ENDING = re.compile(r"\((s|es|[a-z]*(?:\|[a-z]*)+)\)")
_WEAK = 8  # letters: with fewer a template could be part of any text

Span = tuple[int, int]


class Template:
    """A msgid with places, and its translation.

    `strength`: characters of its fixed text. `weak`: it has few letters. `needle`: a part of every text that it matches.
    """

    def __init__(self, msgid: str, translation: str) -> None:
        parts = _PLACE.split(msgid)
        self.translation = translation
        self.numbers = tuple(map(int, parts[1::2]))
        self._fixed = tuple(map(_variants, parts[::2]))
        self.strength = sum(len(variants[-1]) for variants in self._fixed)
        self.weak = sum(c.isalpha() for c in "".join(parts[::2])) < _WEAK
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
        return None if tail is None else (*found, (at, tail))

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
    """What is known of one language: whole texts, and templates, the one with the longest fixed text first."""

    whole: dict[str, str]
    templates: tuple[Template, ...]


def languages() -> tuple[str, ...]:
    """Return the names of the languages, English first."""
    return (ENGLISH, *sorted(path.parts[-3] for path in LOCALE.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")))


def known_language(name: str) -> str:
    """Return the name. Raises UsageError for a language that there is not."""
    if name not in languages():
        raise unknown("language", name, languages())
    return name


@cache
def catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language; an empty one for English. Raises UsageError for an unknown language."""
    if known_language(language) == ENGLISH:
        return Catalogue({}, ())
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as file:
        entries: dict[str, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    whole: dict[str, str] = {}
    templates = []
    for msgid, translation in entries.items():
        if _PLACE.search(msgid):
            templates.append(Template(msgid, translation))
        elif msgid:
            whole.update(dict.fromkeys(_variants(msgid), translation))
    return Catalogue(whole, tuple(sorted(templates, key=lambda one: -one.strength)))
