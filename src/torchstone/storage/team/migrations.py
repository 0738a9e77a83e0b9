"""Making the tables of a team's store, and bringing them up to date."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError
from torchstone.storage.database import FIGURES_VERSION
from torchstone.storage.record_reader import read_record
from torchstone.storage.team.address import Team
from torchstone.storage.team.faults import faults_of
from torchstone.storage.team.records import insert, write_record
from torchstone.storage.team.roles import grant_again
from torchstone.storage.team.session import LAYOUT, PREPARE, SCHEMA, Session, connect, refuse_newer, version_of
from torchstone.storage.team.tables import DERIVED_LAYOUT, LAYOUTS

if TYPE_CHECKING:
    from torchstone.storage.team.session import Raw

# Held by an upgrade alone, and shared by all who write: neither begins before the other has ended.
UPGRADE_LOCK = 0x746F7263


class Upgraded(msgspec.Struct, frozen=True):
    """What was done. `before`, `now`: the version of tables and figures; `derived`: runs whose figures were renewed."""

    before: tuple[int, int] | None
    now: tuple[int, int]
    derived: int


def create(team: Team) -> Upgraded:
    """Make the tables; nothing where they are there. Raises UsageError for those of another version."""
    with faults_of(team), connect(team) as raw:
        _lock(raw)
        before = version_of(raw)
        if before is None:
            encoding = raw.execute("SHOW server_encoding").fetchone()
            if encoding is not None and encoding[0] != "UTF8":
                raise UsageError(f"{team}: its encoding is {encoding[0]}; make the database with ENCODING 'UTF8'")
            raw.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            return _brought_up(raw, None, lambda _: None)
        refuse_newer(before, team)
        if before != (LAYOUT, FIGURES_VERSION):
            raise UsageError(f"{team} is of an older torchstone: torchstone store upgrade --store {team}")
        return Upgraded(before, before, 0)


def upgrade(team: Team, say: Callable[[int], None] = lambda _: None) -> Upgraded:
    """Bring the tables up to date, in one transaction; what a formula or a table changed is derived again.

    `say` is called with the number of runs done. Raises UsageError where there are no tables, or those of a newer
    version.
    """
    with faults_of(team), connect(team) as raw:
        _lock(raw)
        before = version_of(raw)
        if before is None:
            raise UsageError(f"{team} has no tables of torchstone yet: torchstone store create --store {team}")
        refuse_newer(before, team)
        return _brought_up(raw, before, say)


def _lock(raw: Raw) -> None:
    raw.execute(PREPARE)
    raw.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))


def _brought_up(raw: Raw, before: tuple[int, int] | None, say: Callable[[int], None]) -> Upgraded:
    layout, figures = before or (0, FIGURES_VERSION)
    for statements in LAYOUTS[layout:LAYOUT]:
        for statement in statements:
            raw.execute(statement)
    lacking = before is not None and layout < DERIVED_LAYOUT
    derived = _derived_again(Session(raw), say) if lacking or figures != FIGURES_VERSION else 0
    now = (LAYOUT, FIGURES_VERSION)
    if before != now:
        raw.execute("UPDATE version SET layout = %s, figures = %s", now)
        grant_again(raw)
    return Upgraded(before, now, derived)


def _derived_again(session: Session, say: Callable[[int], None]) -> int:
    ids = [run_id for (run_id,) in session.execute("SELECT run_id FROM runs ORDER BY run_id").fetchall()]
    with tempfile.TemporaryDirectory(prefix="torchstone-upgrade-") as folder:
        path = Path(folder) / "record.jsonl"
        for number, run_id in enumerate(ids, 1):
            kept = session.execute("SELECT source, pushed_by, pushed_at FROM records WHERE run_id = ?", (run_id,))
            source, by, at = kept.fetchone()
            write_record(session, run_id, path)
            insert(session, read_record(path), source)
            session.execute("UPDATE records SET pushed_by = ?, pushed_at = ? WHERE run_id = ?", (by, at, run_id))
            say(number)
    return len(ids)
