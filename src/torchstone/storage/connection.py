"""What a query needs of a database: the index of a folder (SQLite) and a team's store (PostgreSQL) have it both.

Queries are written once, in SQLite's words, of which storage/team/session.py makes PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Values = Sequence[Any] | Mapping[str, Any]
NO_LIMIT = 2**62


class Rows(Protocol):
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

    def execute(self, statement: str, values: Values = ..., /) -> Rows:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run `INSERT INTO … VALUES …` for each row."""
        ...


def streamed(connection: Connection, statement: str, values: Values) -> Iterable[Any]:
    """Return what a query finds, row after row: of a server the whole of it would first come into memory."""
    stream = getattr(connection, "stream", None)
    found: Iterable[Any] = connection.execute(statement, values) if stream is None else stream(statement, values)
    return found
