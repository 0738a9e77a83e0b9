"""What a query needs of a database: the index of a folder (SQLite) and a team's store (PostgreSQL) have it both.

Queries are written once, in SQLite's words, of which storage/team/session.py makes PostgreSQL's.
"""

from __future__ import annotations

import contextlib
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
