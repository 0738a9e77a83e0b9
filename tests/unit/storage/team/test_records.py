"""Upgrades of a team's store: by a later version's tables, whole or not at all; what was released never changes."""

import hashlib

import pytest
from postgresql import postgresql
from stored import a_stored_run, case, machine, store

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.storage.importing import push_records
from torchstone.storage.place import team_at
from torchstone.storage.query import runs
from torchstone.storage.team import records, session, tables
from torchstone.storage.team.records import create, upgrade
from torchstone.storage.team.session import connect, reading
from torchstone.storage.team.tables import make_roles

RELEASED = ("cc81b2fd95c2df4b",)


def test_what_was_released_is_never_changed():
    """A store of that version was made by these statements: a change is a further version."""
    found = [hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16] for statements in tables.LAYOUTS]
    assert tuple(found[: len(RELEASED)]) == RELEASED
    assert len(tables.LAYOUTS) == session.LAYOUT


@pytest.fixture(scope="module")
def server():
    with postgresql() as found:
        yield found


@pytest.fixture
def team(server, tmp_path):
    found = team_at(server.secret_url(server.new_database("versions")), typed=False)
    create(found)
    make_roles(found)
    store(tmp_path, [a_stored_run(number, [(case(), 100.0)], machine()) for number in range(3)])
    assert push_records(sorted((tmp_path / "records").iterdir()), found)[1] == []
    return found


def later(monkeypatch, *statements):
    """Be the next version of torchstone, which has these statements more."""
    monkeypatch.setattr(records, "LAYOUTS", (*tables.LAYOUTS, statements))
    later_layout = len(tables.LAYOUTS) + 1
    for module in (records, session):
        monkeypatch.setattr(module, "LAYOUT", later_layout)


def test_a_store_is_brought_up_to_the_next_version(team, monkeypatch):
    later(monkeypatch, "ALTER TABLE runs ADD COLUMN project TEXT", "CREATE TABLE notes (text TEXT)")
    with pytest.raises(UsageError, match="torchstone store upgrade"):
        runs(team)
    found = upgrade(team)
    assert found.before is not None
    assert (found.before[0], found.now[0], found.derived) == (1, 2, 0)
    assert len(runs(team)) == 3
    with reading(team) as one:
        assert one.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        assert one.execute("SELECT has_table_privilege('torchstone_reader', 'notes', 'SELECT')").fetchone() == (True,)
    again = upgrade(team)
    assert again.before == again.now
    monkeypatch.undo()
    with pytest.raises(UsageError, match="newer torchstone"):
        runs(team)


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(team, monkeypatch):
    later(monkeypatch, "ALTER TABLE runs ADD COLUMN project TEXT", "ALTER TABLE nowhere ADD COLUMN a TEXT")
    with pytest.raises(TorchstoneError, match="nowhere"):
        upgrade(team)
    monkeypatch.undo()
    assert len(runs(team)) == 3
    with reading(team) as one:
        there = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'project'"
        assert one.execute(there).fetchone() == (0,)


def test_a_connection_is_fit_for_a_pooler(team):
    """Nothing is prepared, and nothing that was set outlives its transaction."""
    with connect(team) as raw:
        assert raw.prepare_threshold is None
        before = raw.execute("SHOW search_path").fetchone()
        raw.rollback()
        raw.execute(session.PREPARE)
        raw.commit()
        assert raw.execute("SHOW search_path").fetchone() == before
        assert raw.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_tables_need_a_database_of_utf8(server):
    server.sql("DROP DATABASE IF EXISTS latin WITH (FORCE)")
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(UsageError, match="ENCODING 'UTF8'"):
        create(team_at(server.secret_url("latin"), typed=False))
