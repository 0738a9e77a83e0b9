"""What a team's store holds, and what this user may do there."""

from __future__ import annotations

from typing import Any

import msgspec

from torchstone.storage.team.address import Team
from torchstone.storage.team.session import reading, version_of


class Status(msgspec.Struct, frozen=True):
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


def status(team: Team) -> Status:
    """Return the state of a store. Raises what `reading` does."""
    with reading(team) as session:
        version = version_of(session.raw) or (0, 0)

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
        return Status(
            team.shown, f"PostgreSQL {server}", f"{version[0]}.{version[1]}", runs, trials, hosts, newest, size, user,
            may_push=push, superuser=superuser, has_roles=roles == 2,
            encrypted=bool(session.raw.pgconn.ssl_in_use),
        )  # fmt: skip
