"""A team's store behind the pages: read as it is at the moment, page by page. Nothing has to be kept up to date."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Self

from torchstone.report.pages.store import GoneError
from torchstone.storage.database import Connection
from torchstone.storage.index import Problem
from torchstone.storage.place import Team
from torchstone.storage.team.session import AwayError, reading


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
