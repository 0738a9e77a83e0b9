"""Stored runs as Documents: the list of them, what was imported, and where one was exported to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core import units
from torchstone.core.schema.submission import Submission
from torchstone.report.document import Column, CommandLine, Document, Fields, Part, Role, Table, Text
from torchstone.storage.index import Problem
from torchstone.storage.place import Place, Team
from torchstone.storage.query import RunRow
from torchstone.storage.team.tables import READER, WRITER, TeamStatus

if TYPE_CHECKING:
    from torchstone.workflows.submit.submitting import ShareProgress


def runs_document(rows: Sequence[RunRow], problems: Sequence[Problem], place: Place) -> Document:
    """Return the list of runs, in the order given, and the records that cannot be read. `place`: where they are."""
    return Document(f"Runs in {place}", tuple(_parts(rows, problems, place)))


def imported_document(taken: Sequence[tuple[str, bool]]) -> Document:
    """Return for each run, by its id, whether it was new."""
    fresh = sum(new for _, new in taken)
    known = f", {len(taken) - fresh} already stored" if len(taken) > fresh else ""
    rows = tuple((run_id, "imported" if new else "already stored") for run_id, new in taken)
    headline = Text(f"{fresh or 'No'} run{'s' * (fresh != 1)} imported{known}.", Role.HEADLINE)
    return Document("Imported runs", (headline, *([Fields(rows)] if rows else [])))


def pushed_document(taken: Sequence[tuple[str, bool]], faults: Sequence[str], team: Team) -> Document:
    """Return for each run, by its id, whether it was new to a team's store, and what was refused."""
    fresh = sum(new for _, new in taken)
    known = f", {len(taken) - fresh} already there" if len(taken) > fresh else ""
    refused = f", {len(faults)} refused" if faults else ""
    headline = Text(f"{fresh or 'No'} run{'s' * (fresh != 1)} pushed to {team}{known}{refused}.", Role.HEADLINE)
    rows = tuple((run_id, "pushed" if new else "already there") for run_id, new in taken)
    refusals = (Text(f"refused: {fault}") for fault in faults)
    return Document("Pushed runs", (headline, *([Fields(rows)] if rows else []), *refusals))


def exported_document(path: Path) -> Document:
    """Return where a run was written: the path and nothing else, for programs that read it."""
    return Document("Exported run", (Text(str(path), Role.HEADLINE),))


def _parts(rows: Sequence[RunRow], problems: Sequence[Problem], place: Place) -> Iterator[Part]:
    if rows:
        yield Table(tuple(_columns(rows)))
    else:
        yield Text(f"No runs in {place}. To make one:", Role.HEADLINE)
        yield CommandLine("torchstone run smoke" if isinstance(place, Path) else "torchstone push --all")
    yield from (Text(f"unreadable: {problem.file}: {problem.message}") for problem in problems)


def _columns(rows: Sequence[RunRow]) -> Iterator[Column]:
    yield Column("run", tuple(row.run_id for row in rows), left=True)
    yield Column("name", tuple(row.name for row in rows), 1, left=True, shorten=True)
    yield Column("device", tuple(row.device for row in rows), 2, left=True)
    yield Column("host", tuple(row.host for row in rows), 5, left=True)
    yield Column("cases", tuple(str(row.cases) for row in rows), 3)
    yield Column("trials ok", tuple(f"{row.ok}/{row.trials}" for row in rows), 4)
    yield Column("status", tuple(row.status for row in rows), 1, left=True)


# ── a submitted run ─────────────────────────────────────────────────────────────────────────────────────────


_MOST_ROWS = 40


def submitted_document(submission: Submission, job_id: str, folder: Path, resume: Sequence[int] = ()) -> Document:
    """Return what was handed over, and what to type next. `resume`: the shares, where only they were."""
    run_id = submission.head.run_id
    chosen = [submission.shares[share] for share in resume] or list(submission.shares)
    cases = sum(map(len, chosen))
    jobs = len(chosen)
    said = f"{cases} case{'s' * (cases != 1)} in {jobs} job{'s' * (jobs != 1)} submitted to {submission.cluster}."
    rows = (("run", run_id), ("job", job_id), ("scripts, logs", str(folder)))
    return Document(
        submission.head.name,
        (
            Text(said, Role.HEADLINE),
            Fields(rows),
            Text("Wait for the jobs and show the results:"),
            CommandLine(f"torchstone submit --merge {run_id} --follow"),
        ),
    )


def share_parts(
    submission: Submission, standings: Sequence[ShareProgress], twice: int, node_hours: tuple[float | None, bool]
) -> Iterator[Part]:
    """Yield how far the jobs are: a sentence; a row for each that is not complete; what to type next.

    `node_hours`: of the run, and whether it may be more.
    """
    have, planned = (sum(one.trials[place] for one in standings) for place in (0, 1))
    left = [one for one in standings if not one.complete]
    if left:
        running = sum(one.open for one in left)
        yield Text(f"{have} of {planned} planned trials are recorded.", Role.HEADLINE)
        counts = (("jobs waiting or running", running), ("jobs ended without all trials", len(left) - running))
        yield Fields(tuple((name, str(count)) for name, count in counts))
        yield Table(tuple(_job_columns(submission, left[:_MOST_ROWS])))
        if len(left) > _MOST_ROWS:
            yield Text(f"{len(left) - _MOST_ROWS} more jobs are not shown.")
        if running < len(left):
            yield Text("Submit the missing trials again:")
            yield CommandLine(f"torchstone resume {submission.head.run_id}")
    hours, more = node_hours
    if hours is not None:
        told = units.significant(hours, 3)
        yield Fields((("node hours", f"at least {told}, by the records" if more else told),))
    if twice:
        yield Text(f"Of trials that two jobs measured ({twice}), the one of the job that began first counts.")


def _job_columns(submission: Submission, left: Sequence[ShareProgress]) -> Iterator[Column]:
    words = [("–", "not submitted") if one.state is None else (one.state.job, one.state.word) for one in left]
    shares = [submission.shares[one.share] for one in left]
    yield Column("job", tuple(job for job, _ in words), left=True)
    yield Column("state", tuple(word for _, word in words), left=True)
    yield Column("cases", tuple(_places(share) for share in shares), 1, left=True)
    yield Column("trials", tuple(f"{one.trials[0]}/{one.trials[1]}" for one in left))
    if any(one.why for one in left):
        yield Column("why", tuple(one.why or "–" for one in left), 2, left=True, shorten=True)


def _places(share: Sequence[int]) -> str:
    return str(share[0]) if len(share) == 1 else f"{share[0]}-{share[-1]}"


# ── a team's store ──────────────────────────────────────────────────────────────────────────────────────────


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
    parts: list[Part] = [Text(headline, Role.HEADLINE), *([Text(_DONE[done])] if done else []), _store_facts(status)]
    if status.superuser:
        parts.append(Text("You are a superuser of this server: push as a user who is not.", Role.NOTE))
    if status.has_roles:
        parts.append(Text("To let a person push, an administrator types in psql:"))
        parts.append(CommandLine(f"GRANT {WRITER} TO name;"))
    elif status.may_push:
        parts.append(Text("To let others in, make the roles:"))
        parts.append(CommandLine(f"torchstone store roles --store {status.store}"))
    return Document("Team store", tuple(parts))


def _store_facts(status: TeamStatus) -> Fields:
    return Fields(
        (
            ("database server", status.server),
            ("store version", status.version),
            ("size on disk", units.quantity(status.size_bytes, "bytes")),
            ("newest run", status.newest_utc or units.MISSING),
            ("you are", status.user),
            ("you may", "read and push" if status.may_push else "read"),
            ("this connection", "encrypted" if status.encrypted else "not encrypted"),
            ("roles made", f"{READER}, {WRITER}" if status.has_roles else "none"),
        )
    )
