"""The store behind the pages: its index, kept up to date by a thread of its own, so that no page waits for records."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from torchstone.core.errors import TorchstoneError
from torchstone.storage.database import opened
from torchstone.storage.index import Problem, sync

_LEAST_S = 2.0  # between two looks at the records
_SHARE, _MOST_S = 20.0, 60.0  # a look is followed by a pause of 20 times its own time: measuring may go on beside it
_WAIT_S = 0.1  # most that a page waits for a look


class GoneError(TorchstoneError):
    """The folder of the records is not there any more."""


class Store:
    """An output folder. `problems`: records that could not be read; `fault`: why the index is not up to date.

    The index lies in the folder, or in a temporary one where the folder cannot be written: records never change.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: tuple[Problem, ...] = ()
        self.fault: str | None = None
        writable = os.access(folder, os.W_OK)
        self._temporary = None if writable else tempfile.TemporaryDirectory(prefix="torchstone-serve-")
        self._place = folder if self._temporary is None else Path(self._temporary.name)
        with opened(self._place):  # a faulty index ends the command, not its first page
            pass
        self._asked, self._looked, self._roused = threading.Event(), threading.Event(), threading.Event()
        self._ended = False
        self._looking, self._rests_until = False, 0.0
        self._thread = threading.Thread(target=self._keep_up, name="index", daemon=True)

    def __enter__(self) -> Store:
        self._asked.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._asked.set()
        self._roused.set()
        self._thread.join(timeout=1.0)  # one that reads a large store is ended with the process
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def is_behind(self) -> bool:
        """Whether records are being read, so that lists may not be complete."""
        return self._looking

    def freshen(self, *, hurry: bool = False) -> None:
        """Ask for a look at the records, and wait for it, but not for long. `hurry`: even if the last was just now."""
        self._looked.clear()
        self._asked.set()
        if hurry:
            self._rests_until = 0.0
            self._roused.set()
        if self._thread.is_alive() and time.monotonic() > self._rests_until:
            self._looked.wait(_WAIT_S)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open the index as it is: all that is read through it is of one moment. Raises GoneError without a folder."""
        if not self.folder.is_dir():
            raise GoneError(f"{self.folder} is not there any more. When it is back, load this page again.")
        with opened(self._place) as connection:
            connection.execute("BEGIN")
            yield connection

    def _keep_up(self) -> None:
        while True:
            self._asked.wait()
            if self._ended:
                return
            self._asked.clear()
            began = time.monotonic()
            self._look()
            pause_s = min(max(_LEAST_S, _SHARE * (time.monotonic() - began)), _MOST_S)
            self._rests_until = time.monotonic() + pause_s
            self._looked.set()
            self._roused.wait(pause_s)
            self._roused.clear()

    def _look(self) -> None:
        self._looking = True
        try:
            if self.folder.is_dir():
                self.problems = sync(self.folder, self._place)
                self.fault = None
        except Exception as fault:  # the thread goes on: pages show what went wrong, and the next look may succeed
            self.fault = f"{type(fault).__name__}: {fault}"
        finally:
            self._looking = False
