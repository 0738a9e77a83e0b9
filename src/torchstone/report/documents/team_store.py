"""A team's store as a Document: its state, and how people get into it."""

from __future__ import annotations

from torchstone.core import units
from torchstone.report.document import Command, Document, Facts, Part, Role, Text
from torchstone.storage.team.roles import READER, WRITER
from torchstone.storage.team.status import Status


def store_document(status: Status, done: str = "") -> Document:
    """Return the state of a store. `done`: what was just done to it."""
    runs = f"{status.runs} run{'s' * (status.runs != 1)}"
    machines = f"{status.hosts} machine{'s' * (status.hosts != 1)}"
    headline = f"{status.store}{': ' * bool(done)}{done}: {runs} of {machines}, {status.trials} trials."
    rows = (
        ("server", status.server),
        ("version", status.version),
        ("size", units.quantity(status.size_bytes, "bytes")),
        ("newest run", status.newest_utc or units.MISSING),
        ("you are", status.user),
        ("you may", "read and push" if status.may_push else "read"),
        ("connection", "encrypted" if status.encrypted else "not encrypted"),
        ("roles", f"{READER}, {WRITER}" if status.has_roles else "none"),
    )
    parts: list[Part] = [Text(headline, Role.HEADLINE), Facts(rows)]
    if status.superuser:
        parts.append(Text("You are a superuser of this server: push as a user who is not.", Role.NOTE))
    if status.has_roles:
        parts.append(Text("To let a person push, an administrator types in psql:"))
        parts.append(Command(f"GRANT {WRITER} TO name;"))
    elif status.may_push:
        parts.append(Text("To let others in, make the roles:"))
        parts.append(Command(f"torchstone store roles --store {status.store}"))
    return Document("Team store", tuple(parts))
