"""Flushing to disk."""

from __future__ import annotations

import os
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk: without it a new file may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
