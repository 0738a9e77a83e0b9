"""Stored runs as Documents: the list of them, what was imported, and where one was exported to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Table, Text
from torchstone.storage.index import Problem
from torchstone.storage.place import Place, Team
from torchstone.storage.query import RunRow


def runs_document(rows: Sequence[RunRow], problems: Sequence[Problem], place: Place) -> Document:
    """Return the list of runs, in the order given, and the records that cannot be read. `place`: where they are."""
    return Document(f"Runs in {place}", tuple(_parts(rows, problems, place)))


def imported_document(taken: Sequence[tuple[str, bool]]) -> Document:
    """Return for each run, by its id, whether it was new."""
    fresh = sum(new for _, new in taken)
    known = f", {len(taken) - fresh} already stored" if len(taken) > fresh else ""
    rows = tuple((run_id, "imported" if new else "already stored") for run_id, new in taken)
    headline = Text(f"{fresh or 'No'} run{'s' * (fresh != 1)} imported{known}.", Role.HEADLINE)
    return Document("Imported runs", (headline, *([Facts(rows)] if rows else [])))


def pushed_document(taken: Sequence[tuple[str, bool]], faults: Sequence[str], team: Team) -> Document:
    """Return for each run, by its id, whether it was new to a team's store, and what was refused."""
    fresh = sum(new for _, new in taken)
    known = f", {len(taken) - fresh} already there" if len(taken) > fresh else ""
    refused = f", {len(faults)} refused" if faults else ""
    headline = Text(f"{fresh or 'No'} run{'s' * (fresh != 1)} pushed to {team}{known}{refused}.", Role.HEADLINE)
    rows = tuple((run_id, "pushed" if new else "already there") for run_id, new in taken)
    refusals = (Text(f"refused: {fault}") for fault in faults)
    return Document("Pushed runs", (headline, *([Facts(rows)] if rows else []), *refusals))


def exported_document(path: Path) -> Document:
    """Return where a run was written: the path and nothing else, for programs that read it."""
    return Document("Exported run", (Text(str(path), Role.HEADLINE),))


def _parts(rows: Sequence[RunRow], problems: Sequence[Problem], place: Place) -> Iterator[Part]:
    if rows:
        yield Table(tuple(_columns(rows)))
    else:
        yield Text(f"No runs in {place}. To make one:", Role.HEADLINE)
        yield Command("torchstone run smoke" if isinstance(place, Path) else "torchstone push --all")
    yield from (Text(f"unreadable: {problem.file}: {problem.message}") for problem in problems)


def _columns(rows: Sequence[RunRow]) -> Iterator[Column]:
    yield Column("run", tuple(row.run_id for row in rows), left=True)
    yield Column("name", tuple(row.name for row in rows), 1, left=True, shorten=True)
    yield Column("device", tuple(row.device for row in rows), 2, left=True)
    yield Column("host", tuple(row.host for row in rows), 5, left=True)
    yield Column("cases", tuple(str(row.cases) for row in rows), 3)
    yield Column("trials ok", tuple(f"{row.ok}/{row.trials}" for row in rows), 4)
    yield Column("status", tuple(row.status for row in rows), 1, left=True)
