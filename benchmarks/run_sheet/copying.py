"""The results as three files in another folder: for a machine from which few files come back, and that is gone then."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from run_sheet.results import JSON, TABLE

ARCHIVE = "steps.tar.gz"
MOST_BYTES = 4 << 20  # of a file in the archive: a training's state is not what was measured


def tables(folder: Path, into: Path) -> None:
    """Copy what is known so far: sheet.json and sheet.md."""
    for name in (JSON, TABLE):
        if (folder / name).exists():
            shutil.copyfile(folder / name, into / name)


def steps(folder: Path, into: Path) -> None:
    """Write what the steps have written, their logs, answers and records, as one archive."""
    beside = into / f"{ARCHIVE}.writing"
    with tarfile.open(beside, "w:gz") as archive:
        for path in sorted((folder / "steps").rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES:
                archive.add(path, str(path.relative_to(folder)))
    beside.replace(into / ARCHIVE)
