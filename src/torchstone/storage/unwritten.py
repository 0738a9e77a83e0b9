"""Errors for files of a run that could not be written: which one, and how to continue."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from torchstone.core.errors import MissingError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def resume_words(folder: Path, run_id: str) -> str:
    """Return what to type to take what is missing of a run in an output folder."""
    usual = Path(os.environ.get("TORCHSTONE_OUTPUT", "outputs"))
    return f"torchstone resume {run_id}" + ("" if folder == usual else f" --output-dir {folder}")


def unwritten(path: Path, fault: OSError, folder: Path, run_id: str) -> MissingError:
    """Return the error for a file of a run that could not be written. What its record holds already stays."""
    first = "free some space, then" if fault.errno in _FULL else "when it can be written,"
    return MissingError(f"cannot write {path}: {fault.strerror}; {first} `{resume_words(folder, run_id)}` continues")
