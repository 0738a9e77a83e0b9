"""Turns what a trial raised into its Outcome: out of memory, unsupported, or crashed at the user's own line."""

from __future__ import annotations

import traceback
from pathlib import Path

from torchstone.errors import Unsupported, UsageError
from torchstone.terms.message import Ended
from torchstone.terms.trial import Outcome, Status

# What the allocators of devices and hosts say; torch raises plain RuntimeErrors for some of them.
_NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_cpu", "not enough memory")
_OWN_FOLDER = str(Path(__file__).resolve().parent.parent)


def ended_by(error: BaseException) -> Ended:
    """Return the last event for a trial that raised."""
    if isinstance(error, Unsupported):
        return Ended(Outcome(Status.UNSUPPORTED, str(error)))
    if isinstance(error, UsageError):
        said = _from_loader(str(error))
        return Ended(Outcome(Status.CRASHED, said), mistake=said)
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
    if _is_out_of_memory(error):
        return Ended(Outcome(Status.OUT_OF_MEMORY, message))
    if isinstance(error, KeyboardInterrupt):
        return Ended(Outcome(Status.INTERRUPTED, "interrupted"))
    return Ended(Outcome(Status.CRASHED, message, own_lines(error)))


def _from_loader(text: str) -> str:
    """Return what was said in a loader's process: torch keeps the exception's type, and wraps its text."""
    return text.rpartition("UsageError: ")[2].strip() if text.startswith("Caught UsageError") else text


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _NO_MEMORY)


def own_lines(error: BaseException) -> str:
    """Return the traceback without the frames of torchstone and of installed libraries, unless nothing else is left."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f
        for f in frames
        if _OWN_FOLDER not in f.filename and "site-packages" not in f.filename and "<" not in f.filename
    ]
    shown = own or frames[-3:]
    return "".join(traceback.format_list(shown)) + "".join(traceback.format_exception_only(error)).strip()
