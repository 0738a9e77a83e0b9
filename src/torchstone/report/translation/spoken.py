"""The language that is spoken where it is not handed down: by a command, a notebook, a renderer in its own words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torchstone.report.translation.catalogue import ENGLISH, checked_language

VARIABLE = "TORCHSTONE_LANG"
_LANGUAGE: ContextVar[str | None] = ContextVar("language", default=None)


def usual() -> str:
    """Return the language where none is asked for: that of the environment, or English."""
    return os.environ.get(VARIABLE) or ENGLISH


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Speak a language within. Raises UsageError for one that there is not."""
    before = _LANGUAGE.set(checked_language(language))
    try:
        yield
    finally:
        _LANGUAGE.reset(before)


def spoken() -> str:
    """Return the name of the language. Raises UsageError where the environment names one that there is not."""
    return _LANGUAGE.get() or checked_language(usual())


def said(text: str, *values: object) -> str:
    """Return a text of our own in the language that is spoken, its places {0}, {1} filled with the values."""
    language = spoken()
    if language != ENGLISH:
        from torchstone.report.translation.translator import translation  # its catalogue takes a moment to load

        text = translation(text, language)
    return text.format(*values) if values else text
