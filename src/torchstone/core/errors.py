"""The exceptions that torchstone raises on purpose, and the exit codes of its commands (docs/exit-codes.md).

TorchstoneError
├── UsageError        the request is wrong: one line, what is wrong and what to type; exit 2
└── MissingError      the machine lacks something the request needs; exit 3

A trial that fails is not an exception: it is an Outcome, and data.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """How every command ends."""

    DONE = 0
    NO = 1
    WRONG = 2
    LACKING = 3
    FAILED = 4
    INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it

    @property
    def meaning(self) -> str:
        """What it says, in a line."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.NO: "the answer is no: a gate failed, a finding under --strict, or nothing was measured",
    ExitCode.WRONG: "the request is wrong",
    ExitCode.LACKING: "the machine lacks something: a library, a driver, memory or disk space",
    ExitCode.FAILED: "no answer: a benchmark of ci failed or has no baseline, GitHub refused, or not all is verified",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C or SIGTERM",
}


class TorchstoneError(Exception):
    """Anything that ends a command with one line on stderr instead of a traceback."""

    exit_code = ExitCode.NO


class UsageError(TorchstoneError):
    """A mistake in the request. The message says what is wrong and what to type instead."""

    exit_code = ExitCode.WRONG


class MissingError(TorchstoneError):
    """The machine lacks a library, a driver or a compiler that the request needs."""

    exit_code = ExitCode.LACKING


class Unsupported(TorchstoneError):
    """Raised inside a trial: this device, model or build cannot do what the Case asks, and why."""


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that is not there: the nearest spelling first, then all there is."""
    names = sorted(known)
    return UsageError(f"unknown {what} '{name}'.{did_you_mean(name, names)} Known: {', '.join(names) or 'none'}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean '…'?" with the nearest spelling; "" where nothing is near."""
    import difflib  # which commands that succeed do not wait for

    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""
