"""The language that is spoken where it is not handed down: by a command, and by a renderer in words of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torchstone.report.translation.catalogue import ENGLISH, known_language

_LANGUAGE: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Speak a language within. Raises UsageError for one that there is not."""
    before = _LANGUAGE.set(known_language(language))
    try:
        yield
    finally:
        _LANGUAGE.reset(before)


def spoken() -> str:
    """Return the name of the language."""
    return _LANGUAGE.get()


def said(text: str, *values: object) -> str:
    """Return a text of our own in the language that is spoken, its places {0}, {1} filled with the values."""
    language = _LANGUAGE.get()
    if language != ENGLISH:
        from torchstone.report.translation.translator import translation  # its catalogue takes a moment to load

        text = translation(text, language)
    return text.format(*values) if values else text
