"""The language of texts where none is handed down: of a command, a notebook, a renderer in its own words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torchstone.report.translation.catalogue import ENGLISH, checked_language

VARIABLE = "TORCHSTONE_LANG"
_LANGUAGE: ContextVar[str | None] = ContextVar("language", default=None)


def default_language() -> str:
    """Return the language where none is asked for: that of the environment, or English."""
    return os.environ.get(VARIABLE) or ENGLISH


@contextmanager
def in_language(language: str) -> Iterator[None]:
    """Have texts in a language within. Raises UsageError for one that there is not."""
    before = _LANGUAGE.set(checked_language(language))
    try:
        yield
    finally:
        _LANGUAGE.reset(before)


def current_language() -> str:
    """Return the name of the language. Raises UsageError where the environment names one that there is not."""
    return _LANGUAGE.get() or checked_language(default_language())


def localized(text: str, *values: object) -> str:
    """Return a text of our own in the current language, its places {0}, {1} filled with the values."""
    language = current_language()
    if language != ENGLISH:
        from torchstone.report.translation.translator import translation  # its catalogue takes a moment to load

        text = translation(text, language)
    return text.format(*values) if values else text
