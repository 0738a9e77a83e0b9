"""What psycopg raises, as errors of ours: one line, without a password."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.storage.team.address import Team, secrets_of

if TYPE_CHECKING:
    import psycopg

_CUT = 300  # characters of a server's message
_PASSING = frozenset(("40001", "40P01", "57P01", "57P02", "57P03", "53300", "55P03", "25P03"))
_REFUSED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", "authentication failed")
_NO_HOST = ("resolve host", "translate host name")  # of psycopg and libpq: most often mistyped
_UNKNOWN = ("does not exist", "is not permitted to log in", "permission denied for database")


class AwayError(MissingError):
    """The server cannot be reached, the connection to it broke, or it has no room."""


class RefusedError(UsageError):
    """The store as a whole refuses: the user, what the user may not do, or its version."""


def library() -> Any:
    """Return psycopg. Raises MissingError with the command that installs it."""
    try:
        import psycopg
    except ImportError as fault:
        raise MissingError("a team's store needs psycopg: pip install 'torchstone[postgres]'") from fault
    return psycopg


@contextlib.contextmanager
def faults_of(team: Team) -> Iterator[None]:
    """Raise what psycopg raises within the block as an error of ours."""
    psycopg = library()
    try:
        yield
    except psycopg.Error as fault:
        raise translated(fault, team) from None  # what was raised first may quote how the connection was made


def passes(fault: psycopg.Error) -> bool:
    """Say whether the same may succeed a moment later: a server that restarts, a deadlock, no connection free."""
    psycopg = library()
    if fault.sqlstate is not None:
        return fault.sqlstate in _PASSING or fault.sqlstate.startswith("08")
    return isinstance(fault, psycopg.OperationalError) and not _is_refusal(str(fault))


def is_of_value(fault: psycopg.Error) -> bool:
    """Say whether a value of one run is at fault, such as a text that is too long for an index (class 54)."""
    psycopg = library()
    return isinstance(fault, psycopg.DataError | psycopg.IntegrityError) or (fault.sqlstate or "").startswith("54")


def _is_refusal(said: str) -> bool:
    return any(words in said for words in (*_REFUSED, *_UNKNOWN, *_NO_HOST))


def translated(fault: psycopg.Error, team: Team) -> TorchstoneError:
    """Return the error for what psycopg raised."""
    psycopg = library()
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
