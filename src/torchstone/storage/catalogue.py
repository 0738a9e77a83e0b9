"""Lists over all stored runs, a page at a time from the newest on: runs, cases over all runs, findings.

Each page begins behind the last row of the one before (a keyset), so that the hundredth costs what the first does, and
nothing is counted. The connection is one to the index (storage/index.py); no record is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from torchstone.storage.database import Connection
from torchstone.storage.rows import CaseRow, RunLine

_MOST_WORDS = 8  # of a search
_MOST_CHOICES = 300  # values of a filter that are offered
_LAST = "\U0010ffff"  # sorts behind every text


class Wanted(msgspec.Struct, frozen=True):
    """Which rows; None and "" are all. `since`, `until`: days, "2026-11-23", both included. `text`: words, all of them.

    `model`, `device`, `task` and `verdict` are those of one and the same Case. `check` and `severity` are of findings.
    """

    model: str = ""
    device: str = ""
    task: str = ""
    verdict: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    check: str = ""
    severity: str = ""


class Key(NamedTuple):
    """Where a page ended: the moment of its last row, and what tells that row from others of the moment."""

    moment: str
    name: str

    def __str__(self) -> str:
        return f"{self.moment}~{self.name}"

    @classmethod
    def read(cls, text: str) -> Key | None:
        """Return the key that `text` spells, or None."""
        moment, wave, name = text.rpartition("~")
        return cls(moment, name) if wave else None


class SeriesLine(msgspec.Struct, frozen=True):
    """One Case on one machine over all runs. `rate` of its newest run, in items/s, with its 95 % interval."""

    id: int
    case_id: str
    device_name: str
    host: str
    task: str
    model: str
    settings: str
    runs: int
    newest_utc: str
    rate: float | None
    low: float | None
    high: float | None


class FindingLine(msgspec.Struct, frozen=True):
    """One finding of one run. `work`, `settings`: of the Case it is about; "" of the run as a whole.

    `counted`: trials of that Case that a history counts.
    """

    id: int
    run_id: str
    started_utc: str
    check: str
    severity: str
    subject: str
    message: str
    advice: str
    work: str
    settings: str
    counted: int


class _Terms:
    """Conditions of a query, and their values."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.values: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:
        self.conditions.append(condition)
        self.values += values

    def between(self, column: str, wanted: Wanted) -> None:
        if wanted.since:
            self.add(f"{column} >= ?", wanted.since)
        if wanted.until:
            self.add(f"{column} <= ?", wanted.until + _LAST)

    def containing(self, column: str, text: str) -> None:
        for word in text.casefold().split()[:_MOST_WORDS]:
            self.add(f"instr({column}, ?) > 0", word)

    def __str__(self) -> str:
        return " AND ".join(self.conditions) or "1 = 1"


def run_lines(
    connection: Connection, wanted: Wanted, before: Key | None = None, limit: int = 50
) -> tuple[RunLine, ...]:
    """Return the wanted runs, newest first, those behind `before`."""
    terms, of_case = _Terms(), _Terms()
    terms.between("started_utc", wanted)
    terms.containing("words", wanted.text)
    for column, value in (
        ("model", wanted.model),
        ("device_name", wanted.device),
        ("task", wanted.task),
        ("verdict", wanted.verdict),
    ):
        if value:
            of_case.add(f"c.{column} || '' = ?", value)
    if of_case.conditions:
        # What is joined to a column keeps it from walking all cases of a model for each run: the few of a run are read.
        terms.add(f"EXISTS (SELECT 1 FROM cases c WHERE c.run_id = lines.run_id AND {of_case})", *of_case.values)  # noqa: S608
    if before is not None:
        terms.add("(started_utc, run_id) < (?, ?)", *before)
    found = connection.execute(
        f"SELECT * FROM lines WHERE {terms} ORDER BY started_utc DESC, run_id DESC LIMIT ?",  # noqa: S608 -- names only
        (*terms.values, limit),
    )
    return tuple(RunLine(*row) for row in found)


def line_of(connection: Connection, run_id: str) -> RunLine | None:
    """Return one run; None where there is none of that id."""
    row = connection.execute("SELECT * FROM lines WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else RunLine(*row)


def before(connection: Connection, line: RunLine) -> str | None:
    """Return the id of the run before this one by the same name; None where it is the first."""
    found = connection.execute(
        "SELECT run_id FROM lines WHERE name = ? AND (started_utc, run_id) < (?, ?)"
        " ORDER BY started_utc DESC, run_id DESC LIMIT 1",
        (line.name, line.started_utc, line.run_id),
    ).fetchone()
    return None if found is None else str(found[0])


def beginning_with(connection: Connection, prefix: str) -> tuple[str, ...]:
    """Return ids of runs that begin with `prefix`; "latest" is the newest run."""
    if prefix == "latest":
        found = connection.execute("SELECT run_id FROM lines ORDER BY started_utc DESC, run_id DESC LIMIT 1")
    else:
        found = connection.execute(
            "SELECT run_id FROM lines WHERE run_id >= ? AND run_id <= ? ORDER BY run_id LIMIT 9",
            (prefix, prefix + _LAST),
        )
    return tuple(run_id for (run_id,) in found)


def cases_of(connection: Connection, run_id: str) -> tuple[CaseRow, ...]:
    """Return the Cases of a run, in the order of its plan."""
    columns = ", ".join(CaseRow.__struct_fields__)
    found = connection.execute(f"SELECT {columns} FROM cases WHERE run_id = ? ORDER BY place", (run_id,))  # noqa: S608
    return tuple(CaseRow(*row) for row in found)


def series_lines(
    connection: Connection, wanted: Wanted, before: Key | None = None, limit: int = 50
) -> tuple[SeriesLine, ...]:
    """Return Cases by machine, those that were measured last first. Of `wanted`: model, device, task and text."""
    terms = _Terms()
    for column, value in (("model", wanted.model), ("device_name", wanted.device), ("task", wanted.task)):
        if value:
            terms.add(f"{column} = ?", value)
    terms.containing(
        "lower(case_id || ' ' || host || ' ' || device_name || ' ' || model || ' ' || settings)", wanted.text
    )
    if before is not None:
        terms.add("(newest_utc, id) < (?, ?)", before.moment, _number(before.name))
    found = connection.execute(
        f"SELECT * FROM series WHERE {terms} ORDER BY newest_utc DESC, id DESC LIMIT ?",  # noqa: S608 -- names only
        (*terms.values, limit),
    ).fetchall()
    return tuple(SeriesLine(*row, *_newest(connection, row[1:4])) for row in found)


def _newest(connection: Connection, series: Sequence[str]) -> tuple[float | None, ...]:
    found = connection.execute(
        "SELECT rate, low, high FROM cases WHERE case_id = ? AND device_name = ? AND host = ? AND counted > 0"
        " ORDER BY started_utc DESC LIMIT 1",
        series,
    ).fetchone()
    return (None, None, None) if found is None else tuple(found)


def finding_lines(
    connection: Connection, wanted: Wanted, before: Key | None = None, limit: int = 50
) -> tuple[FindingLine, ...]:
    """Return findings of all runs, newest first. Of `wanted`: severity, check, days and text."""
    terms = _Terms()
    for column, value in (("severity", wanted.severity), ("check_name", wanted.check)):
        if value:
            terms.add(f"f.{column} = ?", value)
    terms.between("f.started_utc", wanted)
    terms.containing("lower(f.run_id || ' ' || f.message)", wanted.text)
    if before is not None:
        terms.add("(f.started_utc, f.id) < (?, ?)", before.moment, _number(before.name))
    found = connection.execute(
        "SELECT f.id, f.run_id, f.started_utc, f.check_name, f.severity, f.subject, f.message, f.advice,"  # noqa: S608
        " coalesce(c.task || ' ' || c.model, ''), coalesce(c.settings, ''), coalesce(c.counted, 0)"
        " FROM findings f LEFT JOIN cases c ON c.run_id = f.run_id AND c.place ="
        " (SELECT min(place) FROM cases WHERE run_id = f.run_id AND case_id = f.subject)"
        f" WHERE {terms} ORDER BY f.started_utc DESC, f.id DESC LIMIT ?",
        (*terms.values, limit),
    )
    return tuple(FindingLine(*row) for row in found)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def models(connection: Connection) -> tuple[str, ...]:
    """Return the models of all stored Cases, in alphabetical order."""
    return tuple(_different(connection, "cases", "model"))


def devices(connection: Connection) -> tuple[str, ...]:
    """Return the names of the devices of all stored Cases, in alphabetical order."""
    return tuple(_different(connection, "cases", "device_name"))


def checks(connection: Connection) -> tuple[str, ...]:
    """Return the checks that found something, in alphabetical order."""
    return tuple(_different(connection, "findings", "check_name"))


def _different(connection: Connection, table: str, column: str) -> Iterator[str]:
    """Yield the values of an indexed column, each found by one look into its index: DISTINCT would read every row."""
    value, statement = "", f"SELECT min({column}) FROM {table} WHERE {column} > ?"  # noqa: S608 -- names only
    for _ in range(_MOST_CHOICES):
        (value,) = connection.execute(statement, (value,)).fetchone()
        if value is None:
            return
        yield value
