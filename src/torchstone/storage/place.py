"""Where stored runs are: an output folder, or the URL of a team's store, whose password is never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from torchstone.core.errors import UsageError

VARIABLE = "TORCHSTONE_STORE"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._%-]*)(:\d{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9_.$%-]*")
_SECRET = ("password", "sslpassword")
# Of a URL that has no @, as it is cut off, nothing behind the user is shown, but a port.
_TYPED = re.compile(
    r"(postgres(?:ql)?:/+[^\s:@/\[]*:)(?:\S*@|(?!\d{1,5}\b)\S*)|((?:ssl)?password=)[^\s&]*", re.IGNORECASE
)
_OPTIONS = (
    *(
        "application_name",
        "channel_binding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
    ),
    *("keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname", "passfile", "port", "require_auth"),
    *("service", "sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "target_session_attrs"),
    *("tcp_user_timeout", "user"),
)


class Team:
    """A team's store. `shown`: its server and database, to print. The URL may hold a password and is never shown."""

    __slots__ = ("shown", "url")

    def __init__(self, url: str, shown: str) -> None:
        self.url, self.shown = url, shown

    def __repr__(self) -> str:
        return f"Team({self.shown})"

    def __str__(self) -> str:
        return self.shown

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Team) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)


def team_at(url: str, *, typed: bool) -> Team:
    """Return the store at a URL. `typed`: it stands on the command line, where all users of the machine can read it.

    Raises UsageError for what is no URL of PostgreSQL, and for a password in one that was typed. No error quotes it.
    """
    where = "--store" if typed else VARIABLE
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        _refuse(where)
    account, _, hosts = parts.netloc.rpartition("@")
    names = {name for name, _ in options}
    if parts.scheme not in ("postgresql", "postgres") or parts.fragment or not _is_plain(url):
        _refuse(where)
    if typed and (":" in account or names & set(_SECRET)):
        raise UsageError(
            "--store: every user of this machine can read a password that is typed: leave it out, and write it into "
            f"~/.pgpass, or set PGPASSWORD or {VARIABLE}"
        )
    if names - set(_OPTIONS) - set(_SECRET):
        raise UsageError(f"{where}: an option of the URL that is not known; known: {', '.join(_OPTIONS)}")
    database = parts.path.removeprefix("/")
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")) or not _NAME.fullmatch(database):
        _refuse(where)
    by_option = [value for name, value in options if name == "host"]
    server = hosts or (by_option[0] if by_option else "")
    return Team(url, f"postgresql://{server}/{database}")


def secrets_of(team: Team) -> tuple[str, ...]:
    """Return what must not be printed, the longest first."""
    parts = urlsplit(team.url)
    word = parts.netloc.rpartition("@")[0].partition(":")[2]
    options = [value for name, value in parse_qsl(parts.query) if name in _SECRET]
    found = {word, unquote(word), *options, os.environ.get("PGPASSWORD", "")} - {""}
    return tuple(sorted(found, key=len, reverse=True))


def without_passwords(text: str) -> str:
    """Return a text without the passwords of URLs in it, which may have been typed into a wrong place."""
    return _TYPED.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)


def _is_plain(url: str) -> bool:
    return url.isprintable() and " " not in url


def _refuse(where: str) -> NoReturn:
    raise UsageError(f"{where}: not the URL of a PostgreSQL database; type postgresql://USER@HOST/DATABASE") from None


Place = Path | Team
