import pytest

from torchstone.core.errors import MissingError, UsageError
from torchstone.storage.place import team_at
from torchstone.storage.team.session import (
    AwayError,
    _storable,
    dialect,
    import_psycopg,
    message_of,
    passes,
    store_error,
)

TEAM = team_at("postgresql://ana:wild-secret@db.example/bench", typed=False)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SELECT a FROM b WHERE c = ? AND d > ?", "SELECT a FROM b WHERE c = %s AND d > %s"),
        ("WHERE status = :status LIMIT :limit", "WHERE status = %(status)s LIMIT %(limit)s"),
        ("instr(' ' || device, ' ' || :device || ':') > 0", "strpos(' ' || device, ' ' || %(device)s || ':') > 0"),
        ("a LIKE '100%?' AND b % 2 = ?", "a LIKE '100%%?' AND b %% 2 = %s"),
        ("coalesce(a, ':b') = '?'", "coalesce(a, ':b') = '?'"),
    ],
)
def test_statements_in_postgresqls_words(ours, theirs):
    assert dialect(ours) == theirs


def test_values_as_sqlite_would_store_them():
    assert _storable(["a\0b", "x\ud800", 1, 2.5, float("nan"), None, "가"]) == [
        "a\ufffdb",
        "x?",
        1,
        2.5,
        None,
        None,
        "가",
    ]
    assert _storable({"name": "a\0"}) == {"name": "a\ufffd"}


def fault(kind: str, said: str = "", state: str | None = None):
    made = getattr(pytest.importorskip("psycopg").errors, kind)(said)
    if state is not None:
        made.sqlstate = state
    return made


def test_no_error_quotes_a_password(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "another-secret")
    found = store_error(fault("OperationalError", "dsn 'password=wild-secret' or\nanother-secret is wrong"), TEAM)
    assert "***" in str(found)
    assert "secret" not in str(found).replace("***", "")
    assert "\n" not in str(found)
    assert message_of(ValueError("x" * 1000), TEAM).endswith("…")


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        (("OperationalError", "connection refused"), AwayError, "cannot be reached (connection refused)"),
        (("AdminShutdown", "terminating connection"), AwayError, "cannot be reached"),
        (("DiskFull", "could not extend file: No space left on device"), AwayError, "has no disk left on its server"),
        (("OperationalError", 'FATAL: password authentication failed for user "ana"'), UsageError, "refused this user"),
        (("OperationalError", 'FATAL: database "bench" does not exist'), UsageError, "does not exist"),
        (("InsufficientPrivilege", "permission denied for table runs"), UsageError, "torchstone store roles"),
        (("ReadOnlySqlTransaction", "cannot execute INSERT"), UsageError, "torchstone store roles"),
    ],
)
def test_what_a_fault_of_the_server_becomes(made, kind, says):
    found = store_error(fault(*made), TEAM)
    assert isinstance(found, kind)
    assert says in str(found)


@pytest.mark.parametrize(
    ("made", "again"),
    [
        (("DeadlockDetected", ""), True),
        (("AdminShutdown", ""), True),
        (("CannotConnectNow", ""), True),
        (("OperationalError", "server closed the connection unexpectedly"), True),
        (("OperationalError", "FATAL: password authentication failed"), False),
        (("DiskFull", ""), False),
        (("OperationalError", "failed to resolve host 'db.exampel': Name or service not known"), False),
        (("OperationalError", "FATAL: sorry, too many clients already"), True),
        (("InsufficientPrivilege", ""), False),
    ],
)
def test_what_may_succeed_a_moment_later(made, again):
    assert passes(fault(*made)) is again


def test_without_the_library_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[postgres\]'"):
        import_psycopg()
