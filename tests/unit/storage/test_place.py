import pytest

from torchstone.core.errors import UsageError
from torchstone.storage.place import secrets_of, team_at

URL = "postgresql://ana:wild-secret@db.example:5432/bench?sslmode=verify-full"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ana@db.example:5432/bench?sslmode=verify-full", "postgresql://db.example:5432/bench"),
        ("postgres://db.example/bench", "postgresql://db.example/bench"),
        ("postgresql:///bench?host=/run/postgresql", "postgresql:///run/postgresql/bench"),
        ("postgresql://a:5432,b:5433/bench?target_session_attrs=any", "postgresql://a:5432,b:5433/bench"),
        ("postgresql://[::1]:5432/bench", "postgresql://[::1]:5432/bench"),
    ],
)
def test_a_url_and_what_is_shown_of_it(url, shown):
    assert (team_at(url, typed=True).shown, team_at(url, typed=True).url) == (shown, url)


@pytest.mark.parametrize(
    "url",
    [
        "outputs", "", "http://db.example/bench", "mysql://wild-secret@db/bench", "postgresql://ana:wild-secret/x@db/bench",
        "postgresql://ana:12/wild-secret@db/bench", "postgresql://db/bench#wild-secret", "postgresql://[::1/bench",
        "postgresql://db/bench?wild-secret", "postgresql://db/bench?wild-secret=1", "host=db password=wild-secret",
        "postgresql://db/bench?sslmode=x y", "postgresql://db/be\nnch", "postgresql://ana:wild@secret@db/be nch",
    ],
)  # fmt: skip
@pytest.mark.parametrize("typed", [True, False])
def test_what_is_no_url_is_refused_in_a_line_that_does_not_quote_it(url, typed):
    with pytest.raises(UsageError) as raised:
        team_at(url, typed=typed)
    assert "wild" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url", [URL, "postgresql://ana@db/bench?password=wild-secret", "postgresql://:wild-secret@db/b"]
)
def test_a_password_may_come_from_the_environment_and_not_from_the_command_line(url):
    with pytest.raises(UsageError, match=r"~/\.pgpass") as raised:
        team_at(url, typed=True)
    assert "wild-secret" not in str(raised.value)
    team = team_at(url, typed=False)
    assert "wild-secret" not in f"{team} {team!r} {team.shown}"
    assert "wild-secret" in secrets_of(team)


def test_a_password_is_known_as_it_is_and_as_the_url_spells_it(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "of-the-environment")
    team = team_at("postgresql://ana:a%40b@db/bench", typed=False)
    assert secrets_of(team) == ("of-the-environment", "a%40b", "a@b")
