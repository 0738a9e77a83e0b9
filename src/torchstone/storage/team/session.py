"""A connection to a team's store, and psycopg's errors as errors of ours: one line, without a password.

Queries are written in SQLite's dialect: here, and only here, they become PostgreSQL's.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.storage.database import FIGURES_VERSION, QueryResult, Values
from torchstone.storage.place import Team, secrets_of

if TYPE_CHECKING:
    import psycopg

    Raw = psycopg.Connection[tuple[Any, ...]]


_CUT = 300  # characters of a server's message
_PASSING = frozenset(("40001", "40P01", "57P01", "57P02", "57P03", "53300", "55P03", "25P03"))
_REFUSED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", "authentication failed")
_NO_HOST = ("resolve host", "translate host name")  # of psycopg and libpq: most often mistyped
_UNKNOWN = ("does not exist", "is not permitted to log in", "permission denied for database")


class AwayError(MissingError):
    """The server cannot be reached, the connection to it broke, or it has no room."""


class RefusedError(UsageError):
    """The store as a whole refuses: the user, what the user may not do, or its version."""


def import_psycopg() -> Any:
    """Return psycopg. Raises MissingError with the command that installs it."""
    try:
        import psycopg
    except ImportError as fault:
        raise MissingError("a team's store needs psycopg: pip install 'torchstone[postgres]'") from fault
    return psycopg


@contextlib.contextmanager
def faults_of(team: Team) -> Iterator[None]:
    """Raise what psycopg raises within the block as an error of ours."""
    psycopg = import_psycopg()
    try:
        yield
    except psycopg.Error as fault:
        raise store_error(fault, team) from None  # what was raised first may quote how the connection was made


def passes(fault: psycopg.Error) -> bool:
    """Say whether the same may succeed a moment later: a server that restarts, a deadlock, no connection free."""
    psycopg = import_psycopg()
    if fault.sqlstate is not None:
        return fault.sqlstate in _PASSING or fault.sqlstate.startswith("08")
    return isinstance(fault, psycopg.OperationalError) and not _is_refusal(str(fault))


def is_of_value(fault: psycopg.Error) -> bool:
    """Say whether a value of one run is at fault, such as a text that is too long for an index (class 54)."""
    psycopg = import_psycopg()
    return isinstance(fault, psycopg.DataError | psycopg.IntegrityError) or (fault.sqlstate or "").startswith("54")


def _is_refusal(said: str) -> bool:
    return any(words in said for words in (*_REFUSED, *_UNKNOWN, *_NO_HOST))


def store_error(fault: psycopg.Error, team: Team) -> TorchstoneError:
    """Return the error for what psycopg raised."""
    psycopg = import_psycopg()
    said = message_of(fault, team)
    state = fault.sqlstate or ""
    if state in ("42501", "25006"):  # insufficient_privilege, read_only_sql_transaction
        return RefusedError(
            f"{team}: you may not do this ({said}); the store's owner can allow it: torchstone store roles"
        )
    if state.startswith("28") or any(words in said for words in _REFUSED):
        return RefusedError(
            f"{team}: the server refused this user or password ({said}); the password comes from ~/.pgpass, PGPASSWORD "
            "or TORCHSTONE_STORE"
        )
    if state in ("3D000", "42704") or any(words in said for words in _UNKNOWN):
        return RefusedError(f"{team}: {said}")
    if state in ("53100", "53200"):  # disk_full, out_of_memory
        what = "disk" if state == "53100" else "memory"
        return AwayError(f"{team} has no {what} left on its server ({said})")
    if isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError):
        return AwayError(f"{team} cannot be reached ({said})")
    return TorchstoneError(f"{team}: {said}")


def message_of(fault: BaseException, team: Team) -> str:
    """Return what a server or psycopg said, in one line, without a password."""
    said = " ".join(str(fault).split()).removeprefix("connection failed: ")
    for secret in secrets_of(team):
        said = said.replace(secret, "***")
    said = said if len(said) <= _CUT else f"{said[:_CUT]}…"
    return said or type(fault).__name__


LAYOUT = 1  # of the tables (storage/team/tables.py)
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


class TeamSession:
    """A connection to the store, within a transaction."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    def execute(self, statement: str, values: Values = (), /) -> QueryResult:
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
    return _AT_ONCE if import_psycopg().pq.version() >= 170000 else 1


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
    psycopg = import_psycopg()
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
def reading(team: Team) -> Iterator[TeamSession]:
    """Open a store to read: all that is read is of one moment, and nothing can be changed.

    Raises AwayError where it cannot be reached, UsageError where it refuses, has no tables or those of a newer version,
    TorchstoneError for a row that somebody else than torchstone wrote.
    """
    psycopg = import_psycopg()
    try:
        with faults_of(team), connect(team) as raw:
            raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            raw.read_only = True
            raw.execute(PREPARE)
            check_version(raw, team)
            yield TeamSession(raw)
    except (ValueError, msgspec.MsgspecError) as fault:
        raise TorchstoneError(f"{team}: a row is not as torchstone writes it: {fault}") from fault


def store_version(raw: Raw) -> tuple[int, int] | None:
    """Return the version of the tables and of the figures in them; None where there are no tables."""
    there = raw.execute("SELECT to_regclass('torchstone.version')::text").fetchone()
    if there is None or there[0] is None:
        return None
    found = raw.execute("SELECT layout, figures FROM torchstone.version").fetchone()
    return None if found is None else (int(found[0]), int(found[1]))


def check_version(raw: Raw, team: Team) -> None:
    """Raise RefusedError unless the store is of this version."""
    found = store_version(raw)
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
