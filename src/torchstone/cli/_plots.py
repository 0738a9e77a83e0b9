"""`--plots DIR`: the pictures of a Document as files."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import UsageError
from torchstone.core.own_files import write_whole

if TYPE_CHECKING:
    from torchstone.report.document import Document


def add_plots(parser: argparse.ArgumentParser | argparse._ArgumentGroup, where: str = "there") -> None:
    """Add --plots."""
    parser.add_argument("--plots", type=Path, metavar="DIR", help=f"write each picture as SVG and PNG {where}")


def write_plots(document: Document, folder: Path) -> list[Path]:
    """Write every picture as SVG and PNG, and return the files; none where there is no data for one.

    Raises UsageError where the folder cannot be written, MissingError without vl-convert.
    """
    from torchstone.report.pictures import drawn
    from torchstone.report.translation.documents import in_spoken_language

    return [write_file(folder / name, data, folder) for name, data in drawn(in_spoken_language(document)).items()]


def check_folder(folder: Path) -> None:
    """Raise UsageError where nothing can be written into a folder, which need not be there: before it is made."""
    try:
        nearest = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
        writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    except OSError as fault:
        raise UsageError(f"cannot write into {folder}: {fault.strerror}") from None
    if not writable:
        raise UsageError(f"cannot write into {folder}: {nearest} is {'read-only' if nearest.is_dir() else 'a file'}")


def write_file(path: Path, data: bytes, below: Path) -> Path:
    """Write a file, its folders too, through no link `below` a folder, and return its path.

    Raises UsageError where it cannot be written.
    """
    try:
        return write_whole(path, data, below)
    except OSError as fault:
        raise UsageError(f"cannot write into {path.parent}: {fault.strerror}") from None


def write_told_plots(document: Document, folder: Path) -> None:
    """Write every picture, and on stderr which files those are. Raises as `write_plots`."""
    files = write_plots(document, folder)
    print("\n".join(map(str, files)) or "torchstone: --plots: nothing to draw", file=sys.stderr)


def require_drawing() -> None:
    """Raise MissingError without vl-convert: before anything is measured."""
    from torchstone.core.charts.drawing import library

    library()
