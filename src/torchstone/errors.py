"""The three exceptions that torchstone raises on purpose.

TorchstoneError
├── UsageError        the request is wrong: one line, what is wrong and what to type; exit 2
└── MissingError      the machine lacks something the request needs; exit 3

A trial that fails is not an exception: it is an Outcome, and data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TorchstoneError(Exception):
    """Anything that ends a command with one line on stderr instead of a traceback."""

    exit_code = 1


class UsageError(TorchstoneError):
    """A mistake in the request. The message says what is wrong and what to type instead."""

    exit_code = 2


class MissingError(TorchstoneError):
    """The machine lacks a library, a driver or a compiler that the request needs."""

    exit_code = 3


class Unsupported(TorchstoneError):
    """Raised inside a trial: this device, model or build cannot do what the Case asks, and why."""


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that is not there: the nearest spelling first, then all there is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return UsageError(f"unknown {what} '{name}'.{hint} Known: {', '.join(names) or 'none'}")
