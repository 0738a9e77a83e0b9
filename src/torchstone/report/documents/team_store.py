"""A team's store as a Document: its state, and how people get into it."""

from __future__ import annotations

from torchstone.core import units
from torchstone.report.document import Command, Document, Facts, Part, Role, Text
from torchstone.storage.team.tables import READER, WRITER, TeamStatus

_DONE = {
    "created": "The tables were made.",
    "there": "The tables are there already.",
    "upgraded": "The tables were upgraded.",
    "current": "The tables are up to date already.",
    "roles": "The roles were made.",
}


def store_document(status: TeamStatus, done: str = "") -> Document:
    """Return the state of a store. `done`: what was just done to it, a key of `_DONE`."""
    runs = f"{status.runs} run{'s' * (status.runs != 1)}"
    machines = f"{status.hosts} machine{'s' * (status.hosts != 1)}"
    headline = f"{runs} of {machines}, {status.trials} trials in {status.store}."
    parts: list[Part] = [Text(headline, Role.HEADLINE), *([Text(_DONE[done])] if done else []), _facts(status)]
    if status.superuser:
        parts.append(Text("You are a superuser of this server: push as a user who is not.", Role.NOTE))
    if status.has_roles:
        parts.append(Text("To let a person push, an administrator types in psql:"))
        parts.append(Command(f"GRANT {WRITER} TO name;"))
    elif status.may_push:
        parts.append(Text("To let others in, make the roles:"))
        parts.append(Command(f"torchstone store roles --store {status.store}"))
    return Document("Team store", tuple(parts))


def _facts(status: TeamStatus) -> Facts:
    return Facts((
        ("database server", status.server),
        ("store version", status.version),
        ("size on disk", units.quantity(status.size_bytes, "bytes")),
        ("newest run", status.newest_utc or units.MISSING),
        ("you are", status.user),
        ("you may", "read and push" if status.may_push else "read"),
        ("this connection", "encrypted" if status.encrypted else "not encrypted"),
        ("roles made", f"{READER}, {WRITER}" if status.has_roles else "none"),
    ))  # fmt: skip
