"""The tables of a team's store, version by version. Those of runs have the columns of the index (database.py).

What was released is never changed: a later version is added to `LAYOUTS`, and an upgrade runs what a store lacks.
Texts are compared by their bytes (COLLATE "C"), as in SQLite, whatever the server's language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.storage.place import Team
from torchstone.storage.team.session import PREPARE, SCHEMA, check_version, connect, faults_of, reading, store_version

if TYPE_CHECKING:
    from torchstone.storage.team.session import Raw


class TeamStatus(msgspec.Struct, frozen=True):
    """A store. `version`: of its tables and figures; `size_bytes`: of tables and indexes; `has_roles`: both are made.

    `encrypted`: whether this connection is; `superuser`: this user may do everything, which pushing does not need.
    """

    store: str
    server: str
    version: str
    runs: int
    trials: int
    hosts: int
    newest_utc: str | None
    size_bytes: int
    user: str
    may_push: bool
    superuser: bool
    has_roles: bool
    encrypted: bool


def status(team: Team) -> TeamStatus:
    """Return the state of a store. Raises what `reading` does."""
    with reading(team) as session:
        version = store_version(session.raw) or (0, 0)

        def one(statement: str) -> Any:
            return session.raw.execute(statement).fetchone()

        runs, trials, hosts, newest = one(
            "SELECT count(*), coalesce(sum(trials), 0)::bigint, count(DISTINCT host), max(started_utc) FROM lines"
        )
        (size,) = one(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = 'torchstone' AND c.relkind = 'r'"
        )
        user, server, push, superuser = one(
            "SELECT current_user, current_setting('server_version'), has_table_privilege('runs', 'INSERT')"
            " AND has_table_privilege('runs', 'DELETE') AND has_table_privilege('pieces', 'INSERT'),"
            " current_setting('is_superuser') = 'on'"
        )
        (roles,) = one("SELECT count(*) FROM pg_roles WHERE rolname IN ('torchstone_reader', 'torchstone_writer')")
        return TeamStatus(
            team.shown,
            f"PostgreSQL {server}",
            f"{version[0]}.{version[1]}",
            runs,
            trials,
            hosts,
            newest,
            size,
            user,
            may_push=push,
            superuser=superuser,
            has_roles=roles == 2,
            encrypted=bool(session.raw.pgconn.ssl_in_use),
        )


READER, WRITER = "torchstone_reader", "torchstone_writer"


def statements() -> tuple[str, ...]:
    """Return what makes both roles: a reader may look, a writer may push, too. Neither may change the tables."""
    made = (
        f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        for role in (READER, WRITER)
    )
    return (*made, *_grants())


def _grants() -> Iterator[str]:
    both = f"{READER}, {WRITER}"
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {both}"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {both}"
    for table in TABLES:
        yield f"GRANT INSERT, UPDATE, DELETE ON {SCHEMA}.{table} TO {WRITER}"
    # pushed_by and pushed_at are the server's to write.
    yield f"REVOKE INSERT, UPDATE ON {SCHEMA}.records FROM {WRITER}"
    yield f"GRANT INSERT (run_id, digest, source) ON {SCHEMA}.records TO {WRITER}"


def make_roles(team: Team) -> None:
    """Make the roles, and let them at the tables. Raises UsageError where this user may not."""
    with faults_of(team), connect(team) as raw:
        raw.execute(PREPARE)
        check_version(raw, team)
        for statement in statements():
            raw.execute(statement)


def grant_again(raw: Raw) -> None:
    """Let the roles, where both are there, at tables that an upgrade made."""
    there = raw.execute("SELECT count(*) FROM pg_roles WHERE rolname IN (%s, %s)", (READER, WRITER)).fetchone()
    if there is not None and there[0] == 2:
        for statement in _grants():
            raw.execute(statement)


_FIRST = (
    """CREATE TABLE version (
    one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one), layout BIGINT NOT NULL, figures BIGINT NOT NULL
)""",
    "INSERT INTO version (layout, figures) VALUES (0, 0)",
    """CREATE TABLE runs (
    run_id TEXT COLLATE "C" PRIMARY KEY, name TEXT COLLATE "C" NOT NULL, started_utc TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL, host TEXT COLLATE "C" NOT NULL, device TEXT COLLATE "C" NOT NULL,
    cases BIGINT NOT NULL, trials BIGINT NOT NULL, ok BIGINT NOT NULL, file TEXT COLLATE "C" NOT NULL UNIQUE,
    size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL, head TEXT COLLATE "C" NOT NULL, findings TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C", readings TEXT COLLATE "C" NOT NULL
)""",
    "CREATE INDEX runs_by_time ON runs (started_utc, run_id)",
    "CREATE INDEX runs_by_name ON runs (name, started_utc)",
    """CREATE TABLE trials (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, place BIGINT NOT NULL,
    trial_id TEXT COLLATE "C" NOT NULL, case_id TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL, ord BIGINT NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL, status TEXT COLLATE "C" NOT NULL, message TEXT COLLATE "C",
    reason TEXT COLLATE "C", reason_values TEXT COLLATE "C" NOT NULL,
    duration_s DOUBLE PRECISION NOT NULL, facts TEXT COLLATE "C" NOT NULL, figures TEXT COLLATE "C" NOT NULL,
    disturbed BIGINT NOT NULL, PRIMARY KEY (run_id, place)
)""",
    "CREATE INDEX trials_by_case ON trials (case_id, run_id)",
    """CREATE TABLE lines (
    started_utc TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES runs (run_id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL, status TEXT COLLATE "C" NOT NULL, host TEXT COLLATE "C" NOT NULL,
    cases BIGINT NOT NULL, trials BIGINT NOT NULL, ok BIGINT NOT NULL, verdict TEXT COLLATE "C" NOT NULL,
    work TEXT COLLATE "C" NOT NULL, devices TEXT COLLATE "C" NOT NULL, words TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (started_utc, run_id)
)""",
    "CREATE INDEX lines_by_name ON lines (name, started_utc, run_id)",
    """CREATE TABLE cases (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, place BIGINT NOT NULL,
    case_id TEXT COLLATE "C" NOT NULL, started_utc TEXT COLLATE "C" NOT NULL, task TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL, settings TEXT COLLATE "C" NOT NULL, device_name TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL, verdict TEXT COLLATE "C" NOT NULL, trials BIGINT NOT NULL, counted BIGINT NOT NULL,
    rate DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION, priors TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, place)
)""",
    "CREATE INDEX cases_in_time ON cases (case_id, device_name, host, started_utc)",
    "CREATE INDEX cases_by_model ON cases (model)",
    "CREATE INDEX cases_by_device ON cases (device_name)",
    """CREATE TABLE findings (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    started_utc TEXT COLLATE "C" NOT NULL, check_name TEXT COLLATE "C" NOT NULL, severity TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL, message TEXT COLLATE "C" NOT NULL, advice TEXT COLLATE "C" NOT NULL
)""",
    "CREATE INDEX findings_by_run ON findings (run_id)",
    "CREATE INDEX findings_in_time ON findings (started_utc, id)",
    "CREATE INDEX findings_by_check ON findings (check_name, started_utc)",
    "CREATE INDEX findings_by_severity ON findings (severity, started_utc)",
    """CREATE TABLE series (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, case_id TEXT COLLATE "C" NOT NULL,
    device_name TEXT COLLATE "C" NOT NULL, host TEXT COLLATE "C" NOT NULL, task TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL, settings TEXT COLLATE "C" NOT NULL, runs BIGINT NOT NULL,
    newest_utc TEXT COLLATE "C" NOT NULL,
    UNIQUE (case_id, device_name, host)
)""",
    "CREATE INDEX series_in_time ON series (newest_utc, id)",
    # A statement a time, in one order: writers that add the same Cases wait for each other, and never in a circle.
    # Whoever deletes or inserts in psql has another search_path than torchstone, which sets its own.
    """CREATE FUNCTION cases_added() RETURNS trigger LANGUAGE plpgsql
    SET search_path = torchstone, pg_temp AS $$ BEGIN
    INSERT INTO series AS s (case_id, device_name, host, task, model, settings, runs, newest_utc)
        SELECT case_id, device_name, host, min(task), min(model), min(settings), count(*), max(started_utc)
        FROM added WHERE counted > 0 GROUP BY case_id, device_name, host ORDER BY case_id, device_name, host
        ON CONFLICT (case_id, device_name, host)
        DO UPDATE SET runs = s.runs + excluded.runs, newest_utc = greatest(s.newest_utc, excluded.newest_utc);
    RETURN NULL;
END $$""",
    """CREATE TRIGGER case_added AFTER INSERT ON cases REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION cases_added()""",
    """CREATE FUNCTION cases_removed() RETURNS trigger LANGUAGE plpgsql
    SET search_path = torchstone, pg_temp AS $$ BEGIN
    PERFORM 1 FROM series s WHERE (case_id, device_name, host) IN (SELECT case_id, device_name, host FROM removed)
        ORDER BY case_id, device_name, host FOR UPDATE;
    UPDATE series s SET runs = s.runs - gone.count, newest_utc = coalesce((
        SELECT c.started_utc FROM cases c WHERE c.case_id = s.case_id AND c.device_name = s.device_name
        AND c.host = s.host AND c.counted > 0 ORDER BY c.started_utc DESC LIMIT 1), '')
        FROM (SELECT case_id, device_name, host, count(*) AS count FROM removed WHERE counted > 0
              GROUP BY case_id, device_name, host) gone
        WHERE s.case_id = gone.case_id AND s.device_name = gone.device_name AND s.host = gone.host;
    DELETE FROM series WHERE runs <= 0 AND case_id IN (SELECT case_id FROM removed);
    RETURN NULL;
END $$""",
    """CREATE TRIGGER case_removed AFTER DELETE ON cases REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION cases_removed()""",
    # The records themselves: `digest` of what is stored, `source` of the file that was pushed. They are written before
    # their run, whose Cases other writers may wait for. SET ROLE changes current_user, and not session_user.
    """CREATE TABLE records (
    run_id TEXT COLLATE "C" PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    digest TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL, pushed_by TEXT COLLATE "C" NOT NULL DEFAULT session_user,
    pushed_at TIMESTAMPTZ NOT NULL DEFAULT now()
)""",
    "CREATE INDEX records_by_source ON records (source)",
    """CREATE TABLE pieces (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    place BIGINT NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (run_id, place)
)""",
    "ALTER TABLE pieces ALTER COLUMN data SET STORAGE EXTERNAL",  # compressed already
)
LAYOUTS = (_FIRST,)
TABLES = ("runs", "trials", "lines", "cases", "findings", "series", "records", "pieces")
