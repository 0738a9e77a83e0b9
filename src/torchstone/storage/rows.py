"""The rows of a run in a database: written alike into the index of a folder and into a team's store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Run
from torchstone.storage.connection import Connection
from torchstone.storage.summaries import RunLine, case_rows, run_line, run_readings

CUT_OFF = "cut off"  # the status of a run whose record has no end


class RunRows(msgspec.Struct, frozen=True):
    """All rows of one run."""

    run: tuple[object, ...]
    trials: Sequence[tuple[object, ...]]
    line: RunLine
    cases: Sequence[tuple[object, ...]]
    findings: Sequence[tuple[object, ...]]


def rows_of(run: Run, file: str, size: int, mtime_ns: int) -> RunRows:
    """Return the rows of a run. `file`: of its record, with its size in bytes and when it was changed."""
    from torchstone.core.estimates import priors_of_run  # only a changed record needs them
    from torchstone.core.figures import figures

    head = run.head
    status = run.end.status if run.end else CUT_OFF
    devices = sorted({str(case.placement) for case in head.plan.cases})
    derived = [figures(trial) for trial in run.trials]
    priors = priors_of_run(run, derived)
    summed = tuple(case_rows(run, derived, priors))
    trials = [
        (
            head.run_id, place, trial.trial_id, trial.case_id, trial.number, trial.order, str(trial.purpose),
            str(trial.outcome.status), trial.outcome.message, trial.outcome.reason,
            _text(trial.outcome.values), trial.duration_s, _text(trial.facts),
            _text(found), int(trial.disturbed),
        )
        for place, (trial, found) in enumerate(zip(run.trials, derived, strict=True))
    ]  # fmt: skip
    ok = sum(row[7] == "ok" for row in trials)
    row = (
        head.run_id, head.name, head.started_utc, status, head.machine.host.hostname, " ".join(devices),
        len(head.plan.cases), len(trials), ok, file, size, mtime_ns, _text(head),
        _text({"findings": run.findings}), _text(run.answer) if run.answer is not None else None,
        _text(run_readings(run, derived, priors)),
    )  # fmt: skip
    findings = [
        (head.run_id, head.started_utc, f.check, str(f.severity), f.subject, f.message, f.advice) for f in run.findings
    ]
    cases = [(*msgspec.structs.astuple(row), _text(prior)) for row, prior in zip(summed, priors, strict=True)]
    return RunRows(row, trials, run_line(run, status, summed), cases, findings)


def insert_rows(connection: Connection, rows: RunRows) -> None:
    """Insert the rows of a run that is not there. The Cases come last: of the same ones other writers may wait."""
    connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.run)
    connection.executemany("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.trials)
    connection.execute(
        "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(rows.line)
    )
    connection.executemany(
        "INSERT INTO findings (run_id, started_utc, check_name, severity, subject, message, advice)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows.findings,
    )
    connection.executemany("INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows.cases)


def _text(term: object) -> str:
    return encode(term).decode("utf-8")
