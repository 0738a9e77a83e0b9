"""The index: one SQLite file over all records of an output folder, for queries; rebuilt from the records."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.storage.database import is_unwritable, make, opened, transaction
from torchstone.storage.reading import read_record
from torchstone.storage.storing import store


class Problem(msgspec.Struct, frozen=True):
    """A file that could not be read, and why."""

    file: str
    message: str


def sync(folder: Path) -> tuple[Problem, ...]:
    """Bring the index up to date with `records/*.jsonl`, new, grown and removed; return the files it could not read."""
    with current(folder) as (_, problems):
        return problems


def rebuild(folder: Path) -> tuple[Problem, ...]:
    """Rebuild the index from the records."""
    with current(folder, anew=True) as (_, problems):
        return problems


@contextlib.contextmanager
def current(folder: Path, anew: bool = False) -> Iterator[tuple[sqlite3.Connection, tuple[Problem, ...]]]:
    """Open the index, brought up to date. On a full disk it is made in memory: it costs time, and no run."""
    with opened(folder) as connection:
        try:
            if anew:
                make(connection, anew=True)
            problems = _synced(connection, folder)
        except sqlite3.Error as fault:
            if not is_unwritable(fault):
                raise
        else:
            yield connection, problems
            return
    with opened(folder, in_memory=True) as connection:
        yield connection, _synced(connection, folder)


def _synced(connection: sqlite3.Connection, folder: Path) -> tuple[Problem, ...]:
    known = {file: (size, mtime) for file, size, mtime in connection.execute("SELECT file, size, mtime_ns FROM runs")}
    bad = {row[0]: row[1:] for row in connection.execute("SELECT file, size, mtime_ns, message FROM problems")}
    problems = {}
    present = set()
    for name, size, mtime in _records(folder):
        if known.get(name) == (size, mtime):
            present.add(name)
        elif bad.get(name, ())[:2] == (size, mtime):
            problems[name] = bad[name]
        else:
            try:
                store(connection, read_record(folder / "records" / name), name, size, mtime)
                present.add(name)
            except UsageError as fault:
                problems[name] = (size, mtime, str(fault))
    gone = [(name,) for name in known if name not in present]
    if gone or problems != bad:
        with transaction(connection):
            connection.executemany("DELETE FROM runs WHERE file = ?", gone)
            connection.execute("DELETE FROM problems")
            if not gone:  # a copy of what is gone is no longer one too many: look at it again next time
                connection.executemany(
                    "INSERT INTO problems VALUES (?, ?, ?, ?)", [(k, *v) for k, v in problems.items()]
                )
    return tuple(Problem(name, message) for name, (_, _, message) in sorted(problems.items()))


def _records(folder: Path) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder / "records") as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file():
                    found = entry.stat()
                    yield entry.name, found.st_size, found.st_mtime_ns
    except FileNotFoundError:
        return
