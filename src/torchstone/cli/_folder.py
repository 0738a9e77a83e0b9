"""Where runs are kept: the output folder, from a flag, the environment, or ./outputs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchstone.core.errors import UsageError


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add --output-dir."""
    parser.add_argument(
        "--output-dir", metavar="DIR", help="folder of records and reports (default: $TORCHSTONE_OUTPUT, or outputs)"
    )


def folder_of(options: argparse.Namespace) -> Path:
    """Return the folder. Raises UsageError if something else lies there."""
    folder = Path(options.output_dir or os.environ.get("TORCHSTONE_OUTPUT", "outputs"))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output-dir {folder} is a file; name a folder")
    return folder


def writable(folder: Path, flag: str = "--output-dir") -> Path:
    """Return the folder if files can be made in it (or in the nearest parent there is), without making it yet."""
    there = existing(folder)
    if not there.is_dir():
        raise UsageError(f"{flag} {folder}: {there} is a file; name a folder")
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=there):
            return folder
    except OSError as error:
        raise UsageError(f"{flag} {folder} cannot be written: {error.strerror}; name another folder") from None


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest parent of it that there is."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return there
