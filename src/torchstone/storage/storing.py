"""Putting one run into the index: its figures are derived here, once, and stored beside its outcome."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Run
from torchstone.storage.database import transaction

CUT_OFF = "cut off"  # the status of a run whose record has no end


def store(connection: sqlite3.Connection, run: Run, file: str, size: int, mtime_ns: int) -> None:
    """Replace what the index holds of a run by what its record says. Raises UsageError where it cannot hold it."""
    from torchstone.core.figures import figures  # only a changed record needs it

    head = run.head
    status = run.end.status if run.end else CUT_OFF
    devices = sorted({str(case.placement) for case in head.plan.cases})
    rows = [
        (
            head.run_id, place, trial.trial_id, trial.case_id, trial.number, trial.order, str(trial.purpose),
            str(trial.outcome.status), trial.outcome.message, trial.duration_s, _text(trial.facts),
            _text(figures(trial)),
        )
        for place, trial in enumerate(run.trials)
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
    except (OverflowError, sqlite3.IntegrityError) as fault:
        raise UsageError(f"{file}: a value that cannot be stored: {fault}") from None


def _text(term: object) -> str:
    return encode(term).decode("utf-8")
