"""Who may do what in a team's store: two roles of PostgreSQL, which people and programs are members of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchstone.storage.team.address import Team
from torchstone.storage.team.faults import faults_of
from torchstone.storage.team.session import PREPARE, SCHEMA, check_version, connect
from torchstone.storage.team.tables import TABLES

if TYPE_CHECKING:
    from torchstone.storage.team.session import Raw

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
