"""The index: one SQLite file over all records of an output folder, for queries; rebuilt from the records."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Run
from torchstone.storage.database import is_unwritable, make, opened, transaction
from torchstone.storage.record_reader import read_record
from torchstone.storage.summaries import CaseRow, RunLine, case_rows, run_line

CUT_OFF = "cut off"  # the status of a run whose record has no end


class Problem(msgspec.Struct, frozen=True):
    """A file that could not be read, and why."""

    file: str
    message: str


def sync(folder: Path, place: Path | None = None) -> tuple[Problem, ...]:
    """Bring the index up to date with `records/*.jsonl`, new, grown and removed; return the files it could not read.

    `place`: the folder of the index, where it is another.
    """
    with current(folder, place=place) as (_, problems):
        return problems


def is_stale(connection: sqlite3.Connection, folder: Path, run_id: str) -> bool:
    """Say whether the record of a run is another than the one that was stored, or is gone."""
    row = connection.execute("SELECT file, size, mtime_ns FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return True
    try:
        found = (folder / "records" / row[0]).stat()
    except FileNotFoundError:
        return True
    _, size, mtime_ns = row
    return bool((found.st_size, found.st_mtime_ns) != (size, mtime_ns))


def rebuild(folder: Path) -> tuple[Problem, ...]:
    """Rebuild the index from the records."""
    with current(folder, anew=True) as (_, problems):
        return problems


@contextlib.contextmanager
def current(
    folder: Path, anew: bool = False, place: Path | None = None
) -> Iterator[tuple[sqlite3.Connection, tuple[Problem, ...]]]:
    """Open the index, brought up to date. On a full disk it is made in memory: it costs time, and no run."""
    with opened(place or folder) as connection:
        try:
            if anew:
                make(connection, anew=True)
            problems = _synced(connection, folder)
        except sqlite3.Error as fault:
            if not is_unwritable(fault):
                raise
        else:
            yield connection, problems
            return
    with opened(folder, in_memory=True) as connection:
        yield connection, _synced(connection, folder)


def _synced(connection: sqlite3.Connection, folder: Path) -> tuple[Problem, ...]:
    known = {file: (size, mtime) for file, size, mtime in connection.execute("SELECT file, size, mtime_ns FROM runs")}
    bad = {row[0]: row[1:] for row in connection.execute("SELECT file, size, mtime_ns, message FROM problems")}
    problems = {}
    present = set()
    for name, size, mtime in _records(folder):
        if known.get(name) == (size, mtime):
            present.add(name)
        elif bad.get(name, ())[:2] == (size, mtime):
            problems[name] = bad[name]
        else:
            try:
                _store(connection, read_record(folder / "records" / name), name, size, mtime)
                present.add(name)
            except UsageError as fault:
                problems[name] = (size, mtime, str(fault))
    gone = [(name,) for name in known if name not in present]
    if gone or problems != bad:
        with transaction(connection):
            connection.executemany("DELETE FROM runs WHERE file = ?", gone)
            connection.execute("DELETE FROM problems")
            if not gone:  # a copy of what is gone is no longer one too many: look at it again next time
                connection.executemany(
                    "INSERT INTO problems VALUES (?, ?, ?, ?)", [(k, *v) for k, v in problems.items()]
                )
    return tuple(Problem(name, message) for name, (_, _, message) in sorted(problems.items()))


def _records(folder: Path) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder / "records") as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file():
                    found = entry.stat()
                    yield entry.name, found.st_size, found.st_mtime_ns
    except FileNotFoundError:
        return


def _store(connection: sqlite3.Connection, run: Run, file: str, size: int, mtime_ns: int) -> None:
    """Replace what the index holds of a run by what its record says. Raises UsageError where it cannot hold it."""
    from torchstone.core.figures import figures  # only a changed record needs it

    head = run.head
    status = run.end.status if run.end else CUT_OFF
    devices = sorted({str(case.placement) for case in head.plan.cases})
    derived = [figures(trial) for trial in run.trials]
    summed = tuple(case_rows(run, derived))
    rows = [
        (
            head.run_id, place, trial.trial_id, trial.case_id, trial.number, trial.order, str(trial.purpose),
            str(trial.outcome.status), trial.outcome.message, trial.duration_s, _text(trial.facts),
            _text(found),
        )
        for place, (trial, found) in enumerate(zip(run.trials, derived, strict=True))
    ]  # fmt: skip
    ok = sum(row[7] == "ok" for row in rows)
    try:
        with transaction(connection):
            other = connection.execute(
                "SELECT file FROM runs WHERE run_id = ? AND file != ?", (head.run_id, file)
            ).fetchone()
            if other is not None and (Path(file).stem != head.run_id):
                raise UsageError(f"{file} and {other[0]} contain the same run {head.run_id}")
            connection.execute("DELETE FROM runs WHERE run_id = ? OR file = ?", (head.run_id, file))
            connection.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    head.run_id, head.name, head.started_utc, status, head.machine.host.hostname, " ".join(devices),
                    len(head.plan.cases), len(rows), ok, file, size, mtime_ns, _text(head),
                    _text({"findings": run.findings}), _text(run.answer) if run.answer is not None else None,
                    _text(run.comparison) if run.comparison is not None else None,
                ),
            )  # fmt: skip
            connection.executemany("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            _summarize(connection, run, run_line(run, status, summed), summed)
    except (OverflowError, sqlite3.IntegrityError) as fault:
        raise UsageError(f"{file}: a value that cannot be stored: {fault}") from None


def _summarize(connection: sqlite3.Connection, run: Run, line: RunLine, cases: Sequence[CaseRow]) -> None:
    connection.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(line))
    connection.executemany(
        "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(msgspec.structs.astuple, cases)
    )
    connection.executemany(
        "INSERT INTO findings (run_id, started_utc, check_name, severity, subject, message, advice)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (line.run_id, line.started_utc, f.check, str(f.severity), f.subject, f.message, f.advice)
            for f in run.findings
        ],
    )


def _text(term: object) -> str:
    return encode(term).decode("utf-8")
