"""The database behind the index: its tables, opening it, and rebuilding it when it is old or damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torchstone.core.errors import TorchstoneError, UsageError

# What a query needs of a database: the index of a folder (SQLite) and a team's store (PostgreSQL) have it both.
#
# Queries are written once, in SQLite's words, of which storage/team/session.py makes PostgreSQL's.

Values = Sequence[Any] | Mapping[str, Any]
NO_LIMIT = 2**62


class QueryResult(Protocol):
    """What a query found."""

    def fetchone(self) -> Any:
        """Return the next row; None behind the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """An open database. Places of values are `?` or `:name`."""

    def execute(self, statement: str, values: Values = ..., /) -> QueryResult:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run `INSERT INTO … VALUES …` for each row."""
        ...


@contextlib.contextmanager
def streamed(connection: Connection, statement: str, values: Values) -> Iterator[Iterable[Any]]:
    """Give what a query finds, row after row: of a server the whole of it would first come into memory.

    The rest is given up at the end of the block: a connection that still sends rows cannot be closed.
    """
    stream = getattr(connection, "stream", None)
    if stream is None:
        yield connection.execute(statement, values)
        return
    with contextlib.closing(stream(statement, values)) as rows:
        yield rows


# Raise this whenever a formula in figures.py changes: stored figures are then derived again from the records.
FIGURES_VERSION = 4
_LAYOUT = 1
_LAYOUTS_APART = 1_000_000  # what was made before the first release has less: it counts as layout 0, and is made again
VERSION = _LAYOUT * _LAYOUTS_APART + FIGURES_VERSION
_PATIENCE_S = 30.0
INDEX_FILE = "torchstone.sqlite"
SUFFIXES = ("", "-wal", "-shm", "-journal")  # of the files that SQLite makes of it
_OURS = 0x746F7263  # its application_id, "torc": nothing is dropped or written in a database of another program
_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "9p", "panfs"),
    *("orangefs", "wekafs", "virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse"),
    *("fuse.beegfs",),
)
_TABLES = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, name TEXT NOT NULL, started_utc TEXT NOT NULL, status TEXT NOT NULL, host TEXT NOT NULL,
    device TEXT NOT NULL, cases INTEGER NOT NULL, trials INTEGER NOT NULL, ok INTEGER NOT NULL,
    file TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    head TEXT NOT NULL, findings TEXT NOT NULL, answer TEXT, readings TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_time ON runs (started_utc);
CREATE TABLE trials (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, place INTEGER NOT NULL, trial_id TEXT NOT NULL,
    case_id TEXT NOT NULL, number INTEGER NOT NULL, ord INTEGER NOT NULL, purpose TEXT NOT NULL,
    status TEXT NOT NULL, message TEXT, reason TEXT, reason_values TEXT NOT NULL, duration_s REAL NOT NULL,
    facts TEXT NOT NULL, figures TEXT NOT NULL,
    disturbed INTEGER NOT NULL, PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX trials_by_case ON trials (case_id, run_id);
CREATE TABLE problems (
    file TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, message TEXT NOT NULL
) STRICT;
"""
# The tables of the list pages: a row per run, case, finding and series.
_LISTS = (
    """CREATE TABLE lines (
    started_utc TEXT NOT NULL, run_id TEXT NOT NULL UNIQUE REFERENCES runs (run_id) ON DELETE CASCADE,
    name TEXT NOT NULL, status TEXT NOT NULL, host TEXT NOT NULL, cases INTEGER NOT NULL, trials INTEGER NOT NULL,
    ok INTEGER NOT NULL, verdict TEXT NOT NULL, work TEXT NOT NULL, devices TEXT NOT NULL, words TEXT NOT NULL,
    PRIMARY KEY (started_utc, run_id)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX lines_by_name ON lines (name, started_utc, run_id)",
    """CREATE TABLE cases (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, place INTEGER NOT NULL, case_id TEXT NOT NULL,
    started_utc TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL, settings TEXT NOT NULL,
    device_name TEXT NOT NULL, host TEXT NOT NULL, verdict TEXT NOT NULL, trials INTEGER NOT NULL,
    counted INTEGER NOT NULL, rate REAL, low REAL, high REAL,
    priors TEXT NOT NULL,
    PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX cases_in_time ON cases (case_id, device_name, host, started_utc)",
    "CREATE INDEX cases_by_model ON cases (model)",
    "CREATE INDEX cases_by_device ON cases (device_name)",
    """CREATE TABLE findings (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    started_utc TEXT NOT NULL, check_name TEXT NOT NULL, severity TEXT NOT NULL, subject TEXT NOT NULL,
    message TEXT NOT NULL, advice TEXT NOT NULL
) STRICT""",
    "CREATE INDEX findings_by_run ON findings (run_id)",
    "CREATE INDEX findings_in_time ON findings (started_utc)",
    "CREATE INDEX findings_by_check ON findings (check_name, started_utc)",
    "CREATE INDEX findings_by_severity ON findings (severity, started_utc)",
    """CREATE TABLE series (
    id INTEGER PRIMARY KEY, case_id TEXT NOT NULL, device_name TEXT NOT NULL, host TEXT NOT NULL, task TEXT NOT NULL,
    model TEXT NOT NULL, settings TEXT NOT NULL, runs INTEGER NOT NULL, newest_utc TEXT NOT NULL,
    UNIQUE (case_id, device_name, host)
) STRICT""",
    "CREATE INDEX series_in_time ON series (newest_utc)",
    """CREATE TRIGGER case_added AFTER INSERT ON cases WHEN NEW.counted > 0 BEGIN
    INSERT INTO series (case_id, device_name, host, task, model, settings, runs, newest_utc)
        VALUES (NEW.case_id, NEW.device_name, NEW.host, NEW.task, NEW.model, NEW.settings, 1, NEW.started_utc)
        ON CONFLICT (case_id, device_name, host)
        DO UPDATE SET runs = runs + 1, newest_utc = max(newest_utc, excluded.newest_utc);
END""",
    """CREATE TRIGGER case_removed AFTER DELETE ON cases WHEN OLD.counted > 0 BEGIN
    UPDATE series SET runs = runs - 1, newest_utc = coalesce((
        SELECT started_utc FROM cases WHERE case_id = OLD.case_id AND device_name = OLD.device_name
        AND host = OLD.host AND counted > 0 ORDER BY started_utc DESC LIMIT 1), '')
        WHERE case_id = OLD.case_id AND device_name = OLD.device_name AND host = OLD.host;
    DELETE FROM series
        WHERE runs = 0 AND case_id = OLD.case_id AND device_name = OLD.device_name AND host = OLD.host;
END""",
)
_LIST_NAMES = ("lines", "cases", "findings", "series")


@contextlib.contextmanager
def open_index(folder: Path, in_memory: bool = False) -> Iterator[sqlite3.Connection]:
    """Open the index of an output folder, made if it is not there. Where nothing can be written it lives in memory.

    Raises UsageError if a newer torchstone made it, TorchstoneError if it cannot be opened.
    """
    connection = _prepared(None, folder) if in_memory else _connected(folder)
    try:
        yield connection
    except sqlite3.Error as fault:
        raise TorchstoneError(
            f"the index {folder / INDEX_FILE}: {fault}. It can be deleted; it is rebuilt from the records"
        ) from fault
    finally:
        connection.close()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the one write lock from the start: a lock taken half-way cannot be waited for."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk ends it by itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_unwritable(fault: sqlite3.Error) -> bool:
    """Say whether a full or failing disk is at fault: the index can then be rebuilt in memory."""
    code = getattr(fault, "sqlite_errorcode", 0) & 0xFF  # above are the details
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def keeps_index(folder: Path) -> bool:
    """Say whether the index of a folder lies in it; else in memory.

    Not through a link, which may point anywhere; nor where another user's records have none and are only looked at.
    """
    path = folder / INDEX_FILE
    if not os.access(folder, os.W_OK) or any(path.with_name(path.name + s).is_symlink() for s in SUFFIXES):
        return False
    records = folder / "records"
    return path.exists() or (records if records.exists() else folder).stat().st_uid == os.geteuid()


def _connected(folder: Path) -> sqlite3.Connection:
    writable = folder.is_dir() and keeps_index(folder)
    path = folder / INDEX_FILE
    try:
        return _prepared(path, folder) if writable else _prepared(None, folder)
    except sqlite3.DatabaseError as fault:
        if writable and is_unwritable(fault):
            return _prepared(None, folder)
        if not writable or getattr(fault, "sqlite_errorcode", None) not in (
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_CORRUPT,
        ):
            raise TorchstoneError(f"cannot open the index {path}: {fault}") from fault
    for suffix in SUFFIXES:  # damaged, and nothing in it that the records do not hold
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return _prepared(path, folder)


def _prepared(path: Path | None, folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path or ":memory:", timeout=_PATIENCE_S, isolation_level=None)
    try:
        _check_ours(connection, path)
        # The write-ahead log needs memory shared by all processes: on a network file system it corrupts the file.
        _set_journal(connection, "truncate" if is_network(folder) else "wal")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if _version_of(connection) // _LAYOUTS_APART > _LAYOUT:
            raise UsageError(
                f"{path}: this index was written by a newer torchstone: upgrade torchstone, or delete the index"
            )
        if _version_of(connection) != VERSION:
            make(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_ours(connection: sqlite3.Connection, path: Path | None) -> None:
    """Raise UsageError for a database of another program."""
    (stamp,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    if stamp != _OURS and tables:
        raise UsageError(f"{path} is a database of another program: move it away, and the index is made again")


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] not in (mode, "memory"):
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as fault:  # SQLite's own patience does not hold for this statement
            if is_unwritable(fault) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def _version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def make(connection: sqlite3.Connection, replace: bool = False) -> None:
    """Make empty tables, unless another process just did and `replace` is not asked for."""
    with transaction(connection):
        if _version_of(connection) == VERSION and not replace:
            return
        for table in (*_LIST_NAMES, "trials", "runs", "problems"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in (*_TABLES.split(";")[:-1], *_LISTS):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(f"PRAGMA application_id = {_OURS}")


def is_network(folder: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Say whether `folder` lies on a network file system; False where the system does not tell.

    SQLite's write-ahead log breaks on those that live on another machine.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # not Linux
        return False
    target = os.path.realpath(folder)
    best, kind = "", ""
    for line in lines:
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later one is seen
            best, kind = point, parts[2]
    return kind in _NETWORK
