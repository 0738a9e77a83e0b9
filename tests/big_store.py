"""A store of up to a million trials in a minute: copies of a few real records, and of their rows in the index.

Each copy has an id and a moment of its own, in the record and in the index; the index is what reading the records would
make of them (tests/unit/storage/test_catalogue.py compares the two).
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from build import a_finding
from stored import a_stored_run, case, machine

from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Noted, Run
from torchstone.storage.database import open_index, transaction
from torchstone.storage.index import sync

MODELS = ("hf:bert", "hf:gpt2", "timm:resnet50", "timm:vit_base", "builtin:cnn", "builtin:mlp")
HOSTS = ("desk", "node-1", "node-2")
_FIRST = datetime(2024, 1, 1, tzinfo=UTC)
_APART = timedelta(minutes=45)
_LEVELS = 4  # templates of one workload on one machine: its rates differ
_COPIED = 500  # runs of a transaction


def big_store(folder: Path, runs: int, cases: int = 10, trials: int = 5) -> None:
    """Write so many runs of so many cases and trials a case, 45 minutes apart, and their index."""
    templates = list(_templates(cases, trials))
    _write_templates(folder, templates)
    dice = random.Random(0)
    with open_index(folder) as connection:
        for begin in range(0, runs, _COPIED):
            with transaction(connection):
                for number in range(begin, min(runs, begin + _COPIED)):
                    newer = number * 2 > runs  # a new torch half-way: a history has a change to find
                    choice = [one for one in templates if ("2.13" in str(one.head.machine.software)) == newer]
                    _copy(connection, folder, dice.choice(choice), number)
        with transaction(connection):
            connection.executemany("DELETE FROM runs WHERE run_id = ?", [(one.head.run_id,) for one in templates])
    for one in templates:
        (folder / "records" / f"{one.head.run_id}.jsonl").unlink()


def _templates(cases: int, trials: int) -> Iterator[Run]:
    """Yield runs of every model on every host, before and after a new torch, at several levels."""
    number = 0
    for model in MODELS:
        for host in HOSTS:
            for torch, faster in (("2.12.0", 1.0), ("2.13.0", 1.05)):
                for level in range(_LEVELS):
                    yield _template(number, model, host, torch, faster * (1.0 + 0.004 * level), cases, trials)
                    number += 1


def _template(number: int, model: str, host: str, torch: str, pace: float, cases: int, trials: int) -> Run:
    kind = "cuda" if host != "desk" else "cpu"
    made: list[tuple[Case, float]] = [
        (case(kind, model=model, batch_size=8 * (place + 1)), 1000.0 * pace * (1.0 + 0.1 * place))
        for place in range(cases)
    ]
    findings = [_finding(made[place][0], number) for place in range(cases) if (number + place) % 7 == 0]
    return a_stored_run(
        number, made, machine(kind, host, torch), trials=trials, findings=findings,
        name=f"nightly-{model.partition(':')[2]}", run_id=f"template-{number:06d}",
    )  # fmt: skip


def _finding(of: Case, number: int) -> Finding:
    severity = Severity.WARNING if number % 2 else Severity.INFO
    return a_finding(
        "drift", severity, f"the step time rose by {number % 9 + 1} %", "let it cool, measure again", of.case_id
    )


def _write_templates(folder: Path, templates: Sequence[Run]) -> None:
    records = folder / "records"
    records.mkdir(parents=True)
    for run in templates:
        assert run.end is not None
        lines = [run.head, *run.trials, *map(Noted, run.findings), run.end]
        (records / f"{run.head.run_id}.jsonl").write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    assert sync(folder) == ()


def named(number: int) -> tuple[str, str]:
    """Return the id and the moment of the n-th run."""
    began = _FIRST + number * _APART
    return f"{began:%Y%m%d-%H%M}-{number:06x}", f"{began:%Y-%m-%dT%H:%M:%SZ}"


def _copy(connection: sqlite3.Connection, folder: Path, template: Run, number: int) -> None:
    old_id, old_utc = template.head.run_id, template.head.started_utc
    run_id, utc = named(number)
    records = folder / "records"
    data = (records / f"{old_id}.jsonl").read_bytes()
    path = records / f"{run_id}.jsonl"
    path.write_bytes(data.replace(old_id.encode(), run_id.encode()).replace(old_utc.encode(), utc.encode()))
    found = path.stat()
    values = {
        "old": old_id, "new": run_id, "was": old_utc, "utc": utc, "file": path.name, "size": found.st_size,
        "mtime": found.st_mtime_ns,
    }  # fmt: skip
    for statement in _STATEMENTS:
        connection.execute(statement, values)


_STATEMENTS = (
    (
        "INSERT INTO runs SELECT :new, name, :utc, status, host, device, cases, trials, ok, :file, :size, :mtime,"
        " replace(replace(head, :old, :new), :was, :utc), findings, answer, readings FROM runs"
        " WHERE run_id = :old"
    ),
    (
        "INSERT INTO trials SELECT :new, place, trial_id, case_id, number, ord, purpose, status, message, reason,"
        " reason_values, duration_s, facts, figures, disturbed FROM trials WHERE run_id = :old"
    ),
    (
        "INSERT INTO lines SELECT :utc, :new, name, status, host, cases, trials, ok, verdict, work, devices,"
        " replace(words, :old, :new) FROM lines WHERE run_id = :old"
    ),
    (
        "INSERT INTO cases SELECT :new, place, case_id, :utc, task, model, settings, device_name, host, verdict,"
        " trials, counted, rate, low, high, priors FROM cases WHERE run_id = :old"
    ),
    (
        "INSERT INTO findings (run_id, started_utc, check_name, severity, subject, message, advice)"
        " SELECT :new, :utc, check_name, severity, subject, message, advice FROM findings"
        " WHERE run_id = :old ORDER BY id"
    ),
)


def tables(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of the index, without when a file was written and the numbers of rows."""
    with open_index(folder) as connection:
        found: dict[str, list[tuple[object, ...]]] = {}
        for table in ("runs", "trials", "lines", "cases", "findings", "series"):
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            kept = [place for place, name in enumerate(names) if name not in ("id", "mtime_ns")]
            found[table] = sorted(tuple(row[place] for place in kept) for row in cursor.fetchall())
    return found
