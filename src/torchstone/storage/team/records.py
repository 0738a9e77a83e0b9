"""The records in a team's store: making its tables, writing runs (a transaction each), and copies on this machine.

The same run twice changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.codec import decode
from torchstone.core.schema.run import Head, Run, is_imported
from torchstone.storage import stored_peaks
from torchstone.storage.database import FIGURES_VERSION, Connection, streamed
from torchstone.storage.place import Team
from torchstone.storage.record_reader import MOST_BYTES, checked_id, read_record
from torchstone.storage.record_writer import is_longer, is_twin, record_lines, same_beginning
from torchstone.storage.rows import insert_rows, rows_of
from torchstone.storage.team.session import (
    LAYOUT,
    PREPARE,
    SCHEMA,
    TeamSession,
    check_version,
    connect,
    faults_of,
    import_psycopg,
    is_of_value,
    message_of,
    passes,
    refuse_newer,
    store_error,
    store_version,
)
from torchstone.storage.team.tables import LAYOUTS, grant_again

if TYPE_CHECKING:
    from torchstone.storage.team.session import Raw

# Held by an upgrade alone, and shared by all who write: neither begins before the other has ended.
UPGRADE_LOCK = 0x746F7263


class Upgraded(msgspec.Struct, frozen=True):
    """What was done. `before`, `now`: the version of tables and figures; `derived`: runs whose figures were renewed."""

    before: tuple[int, int] | None
    now: tuple[int, int]
    derived: int


def create(team: Team) -> Upgraded:
    """Make the tables; nothing where they are there. Raises UsageError for those of another version."""
    with faults_of(team), connect(team) as raw:
        _lock(raw)
        before = store_version(raw)
        if before is None:
            encoding = raw.execute("SHOW server_encoding").fetchone()
            if encoding is not None and encoding[0] != "UTF8":
                raise UsageError(f"{team}: its encoding is {encoding[0]}; make the database with ENCODING 'UTF8'")
            raw.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            return _brought_up(raw, None, lambda _: None)
        refuse_newer(before, team)
        if before != (LAYOUT, FIGURES_VERSION):
            raise UsageError(f"{team} is of an older torchstone: torchstone store upgrade --store {team}")
        return Upgraded(before, before, 0)


def upgrade(team: Team, say: Callable[[int], None] = lambda _: None) -> Upgraded:
    """Bring the tables up to date, in one transaction; figures whose formulas changed are derived from the records.

    `say` is called with the number of runs done. Raises UsageError where there are no tables, or those of a newer
    version.
    """
    with faults_of(team), connect(team) as raw:
        _lock(raw)
        before = store_version(raw)
        if before is None:
            raise UsageError(f"{team} has no tables of torchstone yet: torchstone store create --store {team}")
        refuse_newer(before, team)
        return _brought_up(raw, before, say)


def _lock(raw: Raw) -> None:
    raw.execute(PREPARE)
    raw.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))


def _brought_up(raw: Raw, before: tuple[int, int] | None, say: Callable[[int], None]) -> Upgraded:
    layout, figures = before or (0, FIGURES_VERSION)
    for statements in LAYOUTS[layout:LAYOUT]:
        for statement in statements:
            raw.execute(statement)
    derived = _derived_again(TeamSession(raw), say) if figures != FIGURES_VERSION else 0
    now = (LAYOUT, FIGURES_VERSION)
    if before != now:
        raw.execute("UPDATE version SET layout = %s, figures = %s", now)
        grant_again(raw)
    return Upgraded(before, now, derived)


def _derived_again(session: TeamSession, say: Callable[[int], None]) -> int:
    ids = [run_id for (run_id,) in session.execute("SELECT run_id FROM runs ORDER BY run_id").fetchall()]
    with tempfile.TemporaryDirectory(prefix="torchstone-upgrade-") as folder:
        path = Path(folder) / "record.jsonl"
        for number, run_id in enumerate(ids, 1):
            kept = session.execute("SELECT source, pushed_by, pushed_at FROM records WHERE run_id = ?", (run_id,))
            source, by, at = kept.fetchone()
            write_record(session, run_id, path)
            insert(session, read_record(path), source)
            session.execute("UPDATE records SET pushed_by = ?, pushed_at = ? WHERE run_id = ?", (by, at, run_id))
            say(number)
    return len(ids)


PATIENCE_S = 30.0  # for a server that is away, or has no connection free
_LEAST_S, _MOST_S = 0.05, 2.0  # between two attempts

T = TypeVar("T")


class Writer:
    """Puts runs into a store over one connection, made again where it broke."""

    def __init__(self, team: Team, patience_s: float | None = None) -> None:
        """Connect. Raises AwayError where the server stays away (None: for PATIENCE_S), UsageError where it refuses."""
        self.team = team
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._raw: Raw | None = None
        try:
            self._within(lambda _: None)
        except BaseException:
            self._drop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def holds(self, source: str) -> str | None:
        """Return the run that came from a file of this digest; None where there is none. Its record is not read."""

        def ask(session: TeamSession) -> str | None:
            found = session.execute("SELECT run_id FROM records WHERE source = ?", (source,)).fetchone()
            return None if found is None else str(found[0])

        return self._within(ask)

    def put(self, run: Run, origin: str, source: str = "") -> tuple[str, bool]:
        """Store a run; return its id, and whether that changed the store. A longer record replaces a shorter one.

        `origin`: what is named in an error; `source`: the digest of its file. Raises UsageError where the store has
        another run of this id, or cannot hold a value of it.
        """
        checked_id(run.head.run_id)
        try:
            return self._within(lambda session: _put(session, run, origin, source))
        except import_psycopg().Error as fault:  # is_of_value: all others were translated
            said = message_of(fault, self.team)
            raise UsageError(f"{origin}: a value that cannot be stored: {said}") from None

    def _within(self, action: Callable[[TeamSession], T]) -> T:
        """Return what an action says in a transaction of its own, which is begun again where the server was away."""
        psycopg = import_psycopg()
        give_up = time.monotonic() + self._patience_s
        pause_s = _LEAST_S
        while True:
            try:
                return self._once(action)
            except psycopg.Error as fault:
                if is_of_value(fault):
                    raise
                if not passes(fault) or time.monotonic() > give_up:
                    raise store_error(fault, self.team) from None
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # writers that collided do not again
            pause_s = min(2.0 * pause_s, _MOST_S)

    def _once(self, action: Callable[[TeamSession], T]) -> T:
        raw = self._raw
        if raw is None or raw.closed:
            raw = self._raw = connect(self.team)
        try:
            with raw.transaction():
                raw.execute(PREPARE)
                raw.execute("SELECT pg_advisory_xact_lock_shared(%s)", (UPGRADE_LOCK,))
                check_version(raw, self.team)
                return action(TeamSession(raw))
        except BaseException:
            if raw.closed or raw.broken:
                self._drop()
            raise

    def _drop(self) -> None:
        if self._raw is not None:
            with contextlib.suppress(Exception):  # it is gone either way
                self._raw.close()
        self._raw = None


def _put(session: TeamSession, run: Run, origin: str, source: str) -> tuple[str, bool]:
    run_id = run.head.run_id
    session.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (f"torchstone {run_id}",))
    if session.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is None:
        if (twin := _twin(session, run)) is not None:
            return twin, False
        insert(session, run, source)
        return run_id, True
    with tempfile.TemporaryDirectory(prefix="torchstone-push-") as folder:
        path = Path(folder) / "record.jsonl"
        write_record(session, run_id, path)
        stored = read_record(path)
    if not same_beginning(stored, run):
        raise UsageError(f"{origin}: run {run_id} is in the store already with other content")
    if not is_longer(run, stored):
        return run_id, False
    insert(session, run, source)
    return run_id, True


def _twin(session: TeamSession, run: Run) -> str | None:
    """Return the id of the stored run of the same file of another tool; None where there is none."""
    if not is_imported(run):
        return None
    end = run.head.run_id.rpartition("-")[2]
    found = session.execute("SELECT run_id, head FROM runs WHERE instr(run_id, ?) > 0 ORDER BY run_id", (f"-{end}",))
    for run_id, head in found.fetchall():
        if run_id.endswith(f"-{end}") and is_twin(run, decode(head.encode(), Head)):
            return str(run_id)
    return None


_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE_BYTES = 1 << 20
_LEVEL = 1  # of zlib: the numbers of a record become half as long; more effort takes off a tenth of that
_KEPT_BYTES = 1 << 30  # of copies on this machine


class _Sum:
    """How long what went through is, and its digest."""

    def __init__(self) -> None:
        self.bytes = 0
        self._digest = hashlib.sha256()

    def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self._digest.update(data)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def insert(session: TeamSession, run: Run, source: str) -> None:
    """Put a run, with its record, in the place of what is stored of it. `source`: digest of the file it came from."""
    run_id = run.head.run_id
    total = _Sum()
    pieces = list(_pieces(record_lines(run), total))
    rows = rows_of(run, f"{run_id}.jsonl", total.bytes, time.time_ns())
    session.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
    session.executemany(
        "INSERT INTO pieces VALUES (?, ?, ?)", ((run_id, place, data) for place, data in enumerate(pieces))
    )
    session.execute("INSERT INTO records (run_id, digest, source) VALUES (?, ?, ?)", (run_id, total.digest, source))
    insert_rows(session, rows)


def _pieces(lines: Iterable[bytes], total: _Sum) -> Iterator[bytes]:
    held = bytearray()
    for line in lines:
        total.add(line)
        held += line
        while len(held) >= _PIECE_BYTES:
            yield zlib.compress(bytes(held[:_PIECE_BYTES]), _LEVEL)
            del held[:_PIECE_BYTES]
    if held:
        yield zlib.compress(bytes(held), _LEVEL)


def write_record(session: Connection, run_id: str, path: Path) -> None:
    """Write the record of a stored run into a file. Raises UsageError where it is damaged or too large."""
    found = session.execute("SELECT digest FROM records WHERE run_id = ?", (run_id,)).fetchone()
    total = _Sum()
    pieces = streamed(session, "SELECT data FROM pieces WHERE run_id = ? ORDER BY place", (run_id,))
    with path.open("wb") as file, pieces as rows:
        for (data,) in rows:
            piece = _expanded(data)
            total.add(piece)
            if total.bytes > MOST_BYTES:
                raise UsageError(f"run {run_id}: more than {MOST_BYTES} bytes in the store")
            file.write(piece)
    if found is None or total.digest != found[0]:
        raise UsageError(f"run {run_id}: its record in the store is damaged; push it again from where it was measured")


def _expanded(data: bytes) -> bytes:
    """Return a piece; what would be longer than any that was written is cut, and its digest does not fit."""
    try:
        return zlib.decompressobj().decompress(data, _PIECE_BYTES)
    except zlib.error:
        return b""


def fetched(session: Connection, run_id: str) -> Path:
    """Return a copy of the record of a stored run on this machine, fetched where there is none.

    Copies lie in the cache folder ($TORCHSTONE_CACHE), by their digests; of more than 1 GiB the oldest go.
    """
    found = session.execute("SELECT digest FROM records WHERE run_id = ?", (run_id,)).fetchone()
    if found is None:
        raise UsageError(f"run {run_id} is not in the store any more")
    if not _DIGEST.fullmatch(found[0]):  # it names a folder here
        raise UsageError(f"run {run_id}: its record in the store is damaged; push it again from where it was measured")
    folder = stored_peaks.folder().parent / "store"
    path = folder / str(found[0]) / f"{checked_id(run_id)}.jsonl"
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".fetching_", dir=path.parent)
        os.close(descriptor)
        try:
            write_record(session, run_id, Path(name))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _prune(folder, path)
    except OSError as fault:
        raise MissingError(f"cannot write {path}: {fault.strerror}; set TORCHSTONE_CACHE to another folder") from None
    return path


def _prune(folder: Path, newest: Path) -> None:
    """Remove the copies that were fetched first, until the others have room."""
    with contextlib.suppress(OSError):  # another process does the same
        found = sorted((one.stat().st_mtime_ns, one.stat().st_size, one) for one in folder.glob("*/*.jsonl"))
        room = _KEPT_BYTES - sum(size for _, size, _ in found)
        for _, size, path in found:
            if room >= 0:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                path.parent.rmdir()
                room += size
