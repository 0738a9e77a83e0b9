"""A folder in which a program runs, so that what it writes is not in the user's own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from torchstone.core.errors import UsageError

_COPIED_BYTES = 1 << 20  # larger files (data, weights) are linked
_MOST_FILES = 20_000
_ABOVE = 2  # folders that are made, with links to what is in them: a program reads ../data, or ../../data
_MOST_BESIDE = 2_000  # that are linked of one of them
_LEFT_OUT = frozenset({"outputs", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache"})


def mirrored(folder: Path, place: Path) -> Path:
    """Make a folder below `place` that looks like another: folders made again, small files copied, larger ones linked.

    What a program writes into it is there alone. A large file that it opens to write is the user's own, as where the
    command is typed without torchstone; so is what is in the two folders above. Raises UsageError for more files than
    are copied in a moment.
    """
    folder = folder.absolute()
    there = place.joinpath(*folder.parts[1:][-1 - _ABOVE :])
    there.mkdir(parents=True)
    for above, copy in zip(folder.parents[:_ABOVE], there.parents, strict=False):
        with contextlib.suppress(OSError):  # it may not be read
            for beside in islice(above.iterdir(), _MOST_BESIDE):
                if not (copy / beside.name).exists():
                    (copy / beside.name).symlink_to(beside)
    for count, source in enumerate(_entries(folder)):
        if count > _MOST_FILES:
            raise UsageError(
                f"{folder} has more than {_MOST_FILES:,} files, too many for a work folder of each trial: type "
                "--in-place to run the program where it is"
            )
        _copy(source, there / source.relative_to(folder))
    return there


def add_untracked(here: Path, tree: Path) -> None:
    """Bring what git does not track into the work tree of a revision: data, as a rule, that the program reads."""
    told = subprocess.run(
        ["git", "ls-files", "--others", "-z"], cwd=here, capture_output=True, text=True, check=False
    ).stdout
    for name in filter(None, told.split("\0")):
        parts = Path(name).parts
        copy = tree / name
        if not copy.exists() and not any(part in _LEFT_OUT or part.startswith(".") for part in parts):
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(here / name, copy)


def _copy(source: Path, copy: Path) -> None:
    if source.is_symlink():
        copy.symlink_to((source.parent / source.readlink()).absolute())
    elif source.is_dir():
        copy.mkdir()
    elif source.is_file() and source.stat().st_size <= _COPIED_BYTES:
        shutil.copy2(source, copy)
    elif source.is_file():
        copy.symlink_to(source.absolute())


def _entries(folder: Path) -> Iterator[Path]:
    """Yield what is in a folder, each folder before what is in it. Hidden folders are left out."""
    for entry in sorted(folder.iterdir()):
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir() and not entry.is_symlink():
            if entry.name.startswith("."):
                continue
            yield entry
            yield from _entries(entry)
        else:
            yield entry
