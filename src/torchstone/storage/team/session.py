"""A connection to a team's store. Queries come in SQLite's words: here, and only here, they become PostgreSQL's."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.storage.connection import Rows, Values
from torchstone.storage.database import FIGURES_VERSION
from torchstone.storage.team.address import Team
from torchstone.storage.team.faults import RefusedError, faults_of, library

if TYPE_CHECKING:
    import psycopg

    Raw = psycopg.Connection[tuple[Any, ...]]

LAYOUT = 3  # of the tables (storage/team/tables.py)
SCHEMA = "torchstone"
_CONNECT_S = 10
_AT_ONCE = 1000  # rows that come in one piece
_TERM = re.compile(r"'[^']*'|\binstr\(|\?|:[a-z_]+|%")
_INSERT = re.compile(r"INSERT INTO (\w+)\s*(\([\w, ]+\))?\s*VALUES \(")
# Behind a pooler a connection is another's after each transaction: nothing is set for longer. Compiling a query costs
# more than these take.
PREPARE = f"SET LOCAL search_path TO {SCHEMA}, pg_temp; SET LOCAL jit TO off; SET LOCAL client_encoding TO 'UTF8'"


@functools.lru_cache(maxsize=256)
def dialect(statement: str) -> str:
    """Return a statement of SQLite in PostgreSQL's words: `?` and `:name` are `%s` and `%(name)s`, instr is strpos."""

    def word(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == "'" or found == "%":
            return found.replace("%", "%%")
        if found == "instr(":
            return "strpos("
        return "%s" if found == "?" else f"%({found[1:]})s"

    return _TERM.sub(word, statement)


class Session:
    """A connection to the store, within a transaction."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    def execute(self, statement: str, values: Values = (), /) -> Rows:
        """Run one statement."""
        return self.raw.execute(dialect(statement), _storable(values))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run `INSERT INTO … VALUES …` for each row, as one COPY: a tenth of the time."""
        match = _INSERT.match(statement)
        if match is None:
            raise ValueError(statement)
        into = f"COPY {match[1]} {match[2] or ''} FROM STDIN"
        with self.raw.cursor() as cursor, cursor.copy(into) as copy:
            for row in rows:
                copy.write_row([_value(value) for value in row])
        return None

    def stream(self, statement: str, values: Values) -> Iterator[Any]:
        """Yield what a query finds as it comes. Until its end nothing else can be asked."""
        with self.raw.cursor() as cursor:
            yield from cursor.stream(dialect(statement), _storable(values), size=_chunk())


def _chunk() -> int:
    """Return how many rows libpq takes at once: before its version 17 it was one."""
    return _AT_ONCE if library().pq.version() >= 170000 else 1


def _storable(values: Values) -> Values:
    if isinstance(values, Mapping):
        return {name: _value(value) for name, value in values.items()}
    return [_value(value) for value in values]


def _value(value: Any) -> Any:
    """Return what can be stored in place of a value, as SQLite would have it: no NUL in a text, NULL for NaN."""
    if isinstance(value, str):
        if not value.isascii():
            value = value.encode("utf-8", "replace").decode()  # halves of characters
        return value.replace("\0", "\ufffd")
    return None if isinstance(value, float) and math.isnan(value) else value


def connect(team: Team) -> Raw:
    """Return a new connection. Raises what psycopg raises, and UsageError for a URL that it cannot read."""
    psycopg = library()
    try:
        words = psycopg.conninfo.conninfo_to_dict(team.url)
    except psycopg.ProgrammingError:
        raise UsageError(f"{team}: not the URL of a PostgreSQL database") from None
    words.setdefault("connect_timeout", _CONNECT_S)
    words.setdefault("application_name", "torchstone")
    # A pooler hands one connection to several clients: statements prepared by one are unknown to the next
    # (psycopg/psycopg#280).
    found: Raw = psycopg.connect(**words, prepare_threshold=None)
    return found


@contextlib.contextmanager
def reading(team: Team) -> Iterator[Session]:
    """Open a store to read: all that is read is of one moment, and nothing can be changed.

    Raises AwayError where it cannot be reached, UsageError where it refuses, has no tables or those of a newer version,
    TorchstoneError for a row that somebody else than torchstone wrote.
    """
    psycopg = library()
    try:
        with faults_of(team), connect(team) as raw:
            raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            raw.read_only = True
            raw.execute(PREPARE)
            check_version(raw, team)
            yield Session(raw)
    except (ValueError, msgspec.MsgspecError) as fault:
        raise TorchstoneError(f"{team}: a row is not as torchstone writes it: {fault}") from fault


def version_of(raw: Raw) -> tuple[int, int] | None:
    """Return the version of the tables and of the figures in them; None where there are no tables."""
    there = raw.execute("SELECT to_regclass('torchstone.version')::text").fetchone()
    if there is None or there[0] is None:
        return None
    found = raw.execute("SELECT layout, figures FROM torchstone.version").fetchone()
    return None if found is None else (int(found[0]), int(found[1]))


def check_version(raw: Raw, team: Team) -> None:
    """Raise RefusedError unless the store is of this version."""
    found = version_of(raw)
    if found is None:
        raise RefusedError(f"{team} has no tables of torchstone yet: torchstone store create --store {team}")
    refuse_newer(found, team)
    if found != (LAYOUT, FIGURES_VERSION):
        raise RefusedError(f"{team} is of an older torchstone: torchstone store upgrade --store {team}")


def refuse_newer(found: tuple[int, int], team: Team) -> None:
    """Raise RefusedError where a newer torchstone made or upgraded the store."""
    layout, figures = found
    if layout > LAYOUT or figures > FIGURES_VERSION:
        raise RefusedError(
            f"{team} is of a newer torchstone (version {layout}.{figures}, this one reads {LAYOUT}.{FIGURES_VERSION}): "
            "upgrade torchstone"
        )
