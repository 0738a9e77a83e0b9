"""The store behind the pages: its index, kept up to date by a thread of its own, so that no page waits for records.

A team's store is read as it is at the moment, page by page: there nothing has to be kept up to date.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from torchstone.core.errors import TorchstoneError
from torchstone.storage.database import Connection, keeps_index, open_index
from torchstone.storage.index import Problem, sync
from torchstone.storage.place import Team
from torchstone.storage.team.session import AwayError, reading

_LEAST_S = 2.0  # between two looks at the records
_SHARE, _MOST_S = 20.0, 60.0  # a look is followed by a pause of 20 times its own time: measuring may go on beside it
_WAIT_S, _HURRY_S = 0.1, 2.0  # most that a page waits for a look
_LONG_S = 1.0  # of a look, after which pages say that lists may not be complete


class GoneError(TorchstoneError):
    """The folder of the records is not there any more."""


class Store:
    """An output folder. `problems`: records that could not be read; `fault`: why the index is not up to date.

    The index lies in the folder, or in a temporary one where the folder cannot have it: records never change.
    """

    def __init__(self, folder: Path) -> None:
        self.place = folder
        self.problems: tuple[Problem, ...] = ()
        self.fault: str | None = None
        self._temporary = None if keeps_index(folder) else tempfile.TemporaryDirectory(prefix="torchstone-serve-")
        self._place = folder if self._temporary is None else Path(self._temporary.name)
        with open_index(self._place):  # a faulty index ends the command, not its first page
            pass
        self._changed = threading.Condition()  # of everything below
        self._asked = self._answered = 0  # looks: a look answers all that were asked for before it began
        self._hurried = self._ended = False
        self._began_s: float | None = None  # of the look that is under way
        self._rests_until_s = 0.0
        self._thread = threading.Thread(target=self._keep_up, name="index", daemon=True)

    def __enter__(self) -> Self:
        self._asked = 1
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(timeout=1.0)  # one that reads a large store is ended with the process
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def is_behind(self) -> bool:
        """Whether records have been read for a while, so that lists may not be complete."""
        began_s = self._began_s
        return began_s is not None and time.monotonic() - began_s > _LONG_S

    def freshen(self, *, hurry: bool = False) -> None:
        """Ask for a look at the records, and wait for it, but not for long. `hurry`: even if the last was just now."""
        with self._changed:
            self._asked += 1
            self._hurried |= hurry
            self._changed.notify_all()
            if self._thread.is_alive() and (hurry or time.monotonic() > self._rests_until_s):
                asked = self._asked
                self._changed.wait_for(lambda: self._answered >= asked, _HURRY_S if hurry else _WAIT_S)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open the index as it is: all that is read through it is of one moment. Raises GoneError without a folder."""
        if not self.place.is_dir():
            raise GoneError(f"{self.place} is not there any more. When it is back, load this page again.")
        with open_index(self._place) as connection:
            connection.execute("BEGIN")
            yield connection

    def _keep_up(self) -> None:
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._ended or self._asked > self._answered)
                if self._ended:
                    return
                asked, self._hurried, self._began_s = self._asked, False, time.monotonic()
                self._changed.release()
                try:
                    self._look()
                finally:
                    self._changed.acquire()
                took_s = time.monotonic() - self._began_s
                self._answered, self._began_s = asked, None
                pause_s = min(max(_LEAST_S, _SHARE * took_s), _MOST_S)
                self._rests_until_s = time.monotonic() + pause_s
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._ended or self._hurried, pause_s)

    def _look(self) -> None:
        try:
            if self.place.is_dir():
                self.problems = sync(self.place, self._place)
                self.fault = None
        except Exception as fault:  # the thread goes on: pages show what went wrong, and the next look may succeed
            self.fault = f"{type(fault).__name__}: {fault}"


class TeamPages:
    """A team's store, as pages need it (store.py)."""

    problems: tuple[Problem, ...] = ()
    fault: str | None = None
    is_behind = False

    def __init__(self, team: Team) -> None:
        """Try the connection once: a store that refuses ends the command, not its first page."""
        self.place = team
        with reading(team):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def freshen(self, *, hurry: bool = False) -> None:
        """Do nothing: each page reads the store."""

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open the store: all that is read through it is of one moment. Raises GoneError where it is away."""
        try:
            with reading(self.place) as session:
                yield session
        except AwayError as fault:
            raise GoneError(str(fault)) from None
