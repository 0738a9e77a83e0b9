"""The index: one SQLite file over all records of an output folder, for queries; rebuilt from the records."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import Run
from torchstone.storage.database import Connection, is_unwritable, make, open_index, transaction
from torchstone.storage.place import Place
from torchstone.storage.record_reader import read_record
from torchstone.storage.rows import insert_rows, rows_of


class Problem(msgspec.Struct, frozen=True):
    """A file that could not be read, and why."""

    file: str
    message: str


def sync(folder: Path, place: Path | None = None) -> tuple[Problem, ...]:
    """Bring the index up to date with `records/*.jsonl`, new, grown and removed; return the files it could not read.

    `place`: the folder of the index, where it is another.
    """
    with _current(folder, place=place) as (_, problems):
        return problems


def is_stale(connection: Connection, place: Place, run_id: str) -> bool:
    """Say whether the record of a run is another than the one that was stored, or is gone.

    A team's store has the record itself.
    """
    if not isinstance(place, Path):
        return False
    row = connection.execute("SELECT file, size, mtime_ns FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return True
    try:
        found = (place / "records" / row[0]).stat()
    except FileNotFoundError:
        return True
    _, size, mtime_ns = row
    return bool((found.st_size, found.st_mtime_ns) != (size, mtime_ns))


def rebuild(folder: Path) -> tuple[Problem, ...]:
    """Rebuild the index from the records."""
    with _current(folder, anew=True) as (_, problems):
        return problems


@contextlib.contextmanager
def current(place: Place) -> Iterator[tuple[Connection, tuple[Problem, ...]]]:
    """Open what is stored in a place to read it: the index of a folder, brought up to date, or a team's store."""
    if isinstance(place, Path):
        with _current(place) as found:
            yield found
        return
    from torchstone.storage.team.session import reading

    with reading(place) as session:
        yield session, ()


@contextlib.contextmanager
def _current(
    folder: Path, anew: bool = False, place: Path | None = None
) -> Iterator[tuple[sqlite3.Connection, tuple[Problem, ...]]]:
    """Open the index, brought up to date. On a full disk it is made in memory: it costs time, and no run."""
    with open_index(place or folder) as connection:
        try:
            if anew:
                make(connection, replace=True)
            problems = _synced(connection, folder)
        except sqlite3.Error as fault:
            if not is_unwritable(fault):
                raise
        else:
            yield connection, problems
            return
    with open_index(folder, in_memory=True) as connection:
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
                _store(connection, read_record(folder / "records" / name), name, size, mtime)
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


def _store(connection: sqlite3.Connection, run: Run, file: str, size: int, mtime_ns: int) -> None:
    """Replace what the index holds of a run by what its record says. Raises UsageError where it cannot hold it."""
    run_id = run.head.run_id
    rows = rows_of(run, file, size, mtime_ns)
    try:
        with transaction(connection):
            other = connection.execute(
                "SELECT file FROM runs WHERE run_id = ? AND file != ?", (run_id, file)
            ).fetchone()
            if other is not None and (Path(file).stem != run_id):
                raise UsageError(f"{file} and {other[0]} contain the same run {run_id}")
            connection.execute("DELETE FROM runs WHERE run_id = ? OR file = ?", (run_id, file))
            insert_rows(connection, rows)
    except (OverflowError, sqlite3.IntegrityError) as fault:
        raise UsageError(f"{file}: a value that cannot be stored: {fault}") from None
