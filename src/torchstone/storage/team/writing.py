"""Writing runs into a team's store, a transaction each. The same run twice changes nothing.

A server that is away, restarts or has no connection free is waited for; what it had not confirmed is sent again.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from torchstone.core.errors import UsageError
from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.codec import decode
from torchstone.core.schema.run import Head, Run
from torchstone.storage.merging import is_longer, is_twin, same_beginning
from torchstone.storage.record_reader import checked_id, read_record
from torchstone.storage.team.address import Team
from torchstone.storage.team.faults import is_of_value, library, message_of, passes, translated
from torchstone.storage.team.migrations import UPGRADE_LOCK
from torchstone.storage.team.records import insert, write_record
from torchstone.storage.team.session import PREPARE, Session, check_version, connect

if TYPE_CHECKING:
    from torchstone.storage.team.session import Raw

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

        def ask(session: Session) -> str | None:
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
        except library().Error as fault:  # is_of_value: all others were translated
            said = message_of(fault, self.team)
            raise UsageError(f"{origin}: a value that cannot be stored: {said}") from None

    def _within(self, action: Callable[[Session], T]) -> T:
        """Return what an action says in a transaction of its own, which is begun again where the server was away."""
        psycopg = library()
        give_up = time.monotonic() + self._patience_s
        pause_s = _LEAST_S
        while True:
            try:
                return self._once(action)
            except psycopg.Error as fault:
                if is_of_value(fault):
                    raise
                if not passes(fault) or time.monotonic() > give_up:
                    raise translated(fault, self.team) from None
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # writers that collided do not again
            pause_s = min(2.0 * pause_s, _MOST_S)

    def _once(self, action: Callable[[Session], T]) -> T:
        raw = self._raw
        if raw is None or raw.closed:
            raw = self._raw = connect(self.team)
        try:
            with raw.transaction():
                raw.execute(PREPARE)
                raw.execute("SELECT pg_advisory_xact_lock_shared(%s)", (UPGRADE_LOCK,))
                check_version(raw, self.team)
                return action(Session(raw))
        except BaseException:
            if raw.closed or raw.broken:
                self._drop()
            raise

    def _drop(self) -> None:
        if self._raw is not None:
            with contextlib.suppress(Exception):  # it is gone either way
                self._raw.close()
        self._raw = None


def _put(session: Session, run: Run, origin: str, source: str) -> tuple[str, bool]:
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


def _twin(session: Session, run: Run) -> str | None:
    """Return the id of the stored run of the same file of another tool; None where there is none."""
    if not is_imported(run):
        return None
    end = run.head.run_id.rpartition("-")[2]
    found = session.execute("SELECT run_id, head FROM runs WHERE instr(run_id, ?) > 0 ORDER BY run_id", (f"-{end}",))
    for run_id, head in found.fetchall():
        if run_id.endswith(f"-{end}") and is_twin(run, decode(head.encode(), Head)):
            return str(run_id)
    return None
