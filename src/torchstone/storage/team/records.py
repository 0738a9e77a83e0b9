"""The records in a team's store, as compressed pieces, and copies of them on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.run import Run
from torchstone.storage import stored_peaks
from torchstone.storage.connection import Connection, streamed
from torchstone.storage.record_reader import MOST_BYTES, checked_id
from torchstone.storage.record_writer import record_lines
from torchstone.storage.rows import insert_rows, rows_of
from torchstone.storage.team.session import Session

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


def insert(session: Session, run: Run, source: str) -> None:
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
