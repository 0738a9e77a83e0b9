"""Writing files whole, and through no link: a folder that somebody else packed may have links that point anywhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from torchstone.core.errors import UsageError


def refuse_links(path: Path, below: Path) -> None:
    """Raise UsageError if a folder between `below`, which the user named and which may be a link, and `path` is one."""
    for parent in path.parents[: len(path.relative_to(below).parts) - 1]:
        if parent.is_symlink():
            raise UsageError(f"{parent} is a link, and nothing is written through one: remove it, or name its target")


@contextlib.contextmanager
def replacing(path: Path, below: Path | None = None) -> Iterator[Path]:
    """Give a place to write a file to; it is moved to `path` when it is whole, in the place of a link there.

    Folders are made. No link `below` that folder is followed; None: that of the file. Raises OSError, UsageError.
    """
    import tempfile  # which commands that only print do not wait for

    refuse_links(path, path.parent if below is None else below)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing_", dir=path.parent) as folder:
        beside = Path(folder) / path.name
        yield beside
        beside.replace(path)


def write_whole(path: Path, data: bytes, below: Path | None = None) -> Path:
    """Write a file as `replacing` does, and return its path."""
    with replacing(path, below) as beside:
        beside.write_bytes(data)
    return path


def flush_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk: without it a new file may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
