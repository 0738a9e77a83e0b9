"""What the flow tests share."""

import pytest
from postgresql import PASSWORDS, READER, WRITER, postgresql
from programs import taken  # noqa: F401  # a fixture

from torchstone.cli import main


@pytest.fixture(scope="module", autouse=True)
def _warm(warm):
    """Fork templates instead of starting them."""


@pytest.fixture
def refused(capfd, outputs):
    """Run a command that must be refused; return its line (and, for the user's own code, the lines below it)."""

    def check(*words: str, lines: int = 1) -> str:
        before = sorted(outputs.rglob("*"))
        capfd.readouterr()  # what was printed before is not its answer
        code = main(list(words))
        said = capfd.readouterr()
        assert code == 2, said
        assert said.out == ""
        assert said.err.startswith("torchstone: ")
        assert len(said.err.splitlines()) <= lines, said.err
        assert sorted(outputs.rglob("*")) == before
        return said.err

    return check


@pytest.fixture(scope="session")
def team_server():
    """A PostgreSQL with two users who own nothing."""
    with postgresql() as found:
        for user in (READER, WRITER):
            found.sql(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORDS[user]}'")
        yield found


@pytest.fixture
def team(team_server, monkeypatch, tmp_path):
    """A store with tables and roles; the URL without a password, which comes from a pgpass file."""
    team_server.new_database("bench")
    passwords = tmp_path / "pgpass"
    passwords.write_text("".join(f"*:*:*:{user}:{word}\n" for user, word in PASSWORDS.items()))
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCHSTONE_STORE", raising=False)
    assert main(["store", "create", "--store", team_server.url("bench")]) == 0
    assert main(["store", "roles", "--store", team_server.url("bench")]) == 0
    team_server.sql(f"GRANT torchstone_reader TO {READER}; GRANT torchstone_writer TO {WRITER}")
    return team_server
