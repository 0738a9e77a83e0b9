"""Queries of the index: stored runs, tunes, and one run with its figures, without reading its record."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError, did_you_mean
from torchstone.core.figures import Figures, figures
from torchstone.core.messages import Value
from torchstone.core.schema.answer import Answer, TuneResult
from torchstone.core.schema.codec import decode
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run import Head, Run
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Outcome, Purpose, Reason, Status, Trial
from torchstone.storage.database import NO_LIMIT, Connection
from torchstone.storage.index import current
from torchstone.storage.place import Place
from torchstone.storage.record_reader import MOST_LINE_BYTES, RecordPart, read_bounded, read_record, record_path
from torchstone.storage.rows import CUT_OFF


class StoredTune(msgspec.Struct, frozen=True):
    """A tune that found something, without its trials."""

    head: Head
    answer: TuneResult


def tune_answers(place: Place) -> Iterator[StoredTune]:
    """Yield every tune of a store that has an answer, newest first."""
    with current(place) as (connection, _):
        rows = connection.execute(
            "SELECT head, answer FROM runs WHERE answer IS NOT NULL ORDER BY started_utc DESC, run_id DESC"
        )
        for head, answer in rows:
            found: Answer = decode(answer.encode(), Answer)
            if isinstance(found, TuneResult):
                yield StoredTune(decode(head.encode(), Head), found)


_SELECT = "SELECT run_id, name, started_utc, status, host, device, cases, trials, ok, file FROM runs"
_NEWEST = "ORDER BY started_utc DESC, run_id DESC"
_ON_DEVICE = (
    "(instr(' ' || device || ' ', ' ' || :device || ' ') > 0 OR instr(' ' || device, ' ' || :device || ':') > 0)"
)


class RunRow(msgspec.Struct, frozen=True):
    """A line of `runs`. `status`: done, interrupted, out of time or cut off; `ok` counts trials that ended well."""

    run_id: str
    name: str
    started_utc: str
    status: str
    host: str
    device: str
    cases: int
    trials: int
    ok: int
    file: str


class TrialRow(msgspec.Struct, frozen=True):
    """One trial as the index knows it: how it ended and its figures, without its raw values.

    `duration_s`: None of another tool's, where it is not known.
    """

    trial_id: str
    case_id: str
    number: int
    order: int
    outcome: Outcome
    duration_s: float | None
    facts: Facts
    figures: Figures
    purpose: Purpose = Purpose.REPLICATE
    disturbed: bool = False


class Entry(msgspec.Struct, frozen=True):
    """One run as the index knows it. `path` is its record (or document).

    `stamp`: size in bytes and time of change in ns of that file, as it was when the index read it (`stored`).
    """

    row: RunRow
    path: Path
    head: Head
    findings: tuple[Finding, ...]
    trials: tuple[TrialRow, ...]
    answer: Answer | None = None
    stamp: tuple[int, int] | None = None


class _StoredFindings(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]


def runs(
    place: Place, limit: int | None = None, name: str | None = None, device: str | None = None
) -> tuple[RunRow, ...]:
    """Return the stored runs, newest first: those whose name holds `name` and that used `device` (cuda, or cuda:1)."""
    conditions = [
        *(["instr(name, :name) > 0"] if name is not None else []),
        *([_ON_DEVICE] if device is not None else []),
    ]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    values = {"name": name, "device": device, "limit": NO_LIMIT if limit is None else limit}
    with current(place) as (connection, _):
        found = connection.execute(f"{_SELECT} {where}{_NEWEST} LIMIT :limit", values)
        return tuple(RunRow(*row) for row in found)


def find(place: Place, word: str) -> Entry:
    """Return the run that `word` means, with its figures: `latest`, an id, a path, a name (its newest run), a prefix.

    Raises UsageError if there is none, naming the nearest, or if a prefix fits several, naming them.
    """
    with current(place) as (connection, _):
        row = _row(connection, word)
        if row is None:
            return entry_of(read_run(Path(word)), Path(word))
        return _entry(connection, place, row)


def stored(connection: Connection, place: Place, run_id: str) -> Entry | None:
    """Return a run by its id from an index that is open, as it is, with its stamp; None where there is none."""
    row = connection.execute(f"{_SELECT} WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    size, mtime_ns = connection.execute("SELECT size, mtime_ns FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return msgspec.structs.replace(_entry(connection, place, RunRow(*row)), stamp=(size, mtime_ns))


def _entry(connection: Connection, place: Place, row: RunRow) -> Entry:
    head, findings, answer = connection.execute(
        "SELECT head, findings, answer FROM runs WHERE run_id = ?", (row.run_id,)
    ).fetchone()
    return Entry(
        row,
        _record(connection, place, row),
        decode(head.encode(), Head),
        decode(findings.encode(), _StoredFindings).findings,
        _trials(connection, row.run_id),
        decode(answer.encode(), Answer) if answer is not None else None,
    )


def _record(connection: Connection, place: Place, row: RunRow) -> Path:
    """Return where the record of a run is: in its folder; of a team's store, a copy of it on this machine."""
    if isinstance(place, Path):
        return place / "records" / row.file
    from torchstone.storage.team.records import fetched

    return fetched(connection, row.run_id)


def trainings(folder: Path) -> tuple[Path, ...]:
    """Return the folders into which the recorded trainings wrote their checkpoints, newest first: some may be gone."""
    with current(folder) as (connection, _):
        newest_first = "SELECT head FROM runs WHERE instr(head, ?) > 0 ORDER BY started_utc DESC, run_id DESC"
        found = connection.execute(newest_first, ('"fit":{',))
        fits: list[Fit | None] = [decode(head.encode(), Head).procedure.fit for (head,) in found]
    return tuple(dict.fromkeys(Path(fit.folder) for fit in fits if fit is not None and fit.folder))


def locate(place: Place, word: str) -> Path:
    """Return the record (or document) of the run that `word` means. Raises UsageError as `find` does."""
    with current(place) as (connection, _):
        row = _row(connection, word)
        return Path(word) if row is None else _record(connection, place, row)


def locate_id(place: Place, run_id: str) -> Path | None:
    """Return the record of the run that has this very id; None where there is none."""
    if isinstance(place, Path):
        path = record_path(place, run_id)
        return path if path.is_file() else None
    with current(place) as (connection, _):
        row = connection.execute(f"{_SELECT} WHERE run_id = ?", (run_id,)).fetchone()
        return None if row is None else _record(connection, place, RunRow(*row))


def read_run(path: Path, wanted: RecordPart | None = None) -> Run:
    """Return the run in a record, a document or a file of another tool. Raises UsageError if it is none of them.

    `wanted`: of a record, this part alone; a document, or a file of another tool, is read whole.
    """
    from torchstone.storage import foreign
    from torchstone.storage.run_document import read_document

    if (tool := foreign.recognised(path)) is not None:
        runs = foreign.looked_at(tool, path)
        if len(runs) != 1:
            raise UsageError(f"{path} contains {len(runs)} runs: type torchstone import {path}, then name one of them")
        return runs[0]
    with read_bounded(path) as file:
        beginning = file.readline(MOST_LINE_BYTES)[:24]
    return read_document(path) if beginning.startswith(b'{"record":"document"') else read_record(path, wanted)


def _row(connection: Connection, word: str) -> RunRow | None:
    """Return the row of the run, or None if `word` is a file."""
    if word == "latest":
        if row := connection.execute(f"{_SELECT} {_NEWEST} LIMIT 1").fetchone():
            return RunRow(*row)
        raise UsageError("no run is stored here yet; to make one, type torchstone run demo")
    if row := connection.execute(f"{_SELECT} WHERE run_id = ?", (word,)).fetchone():
        return RunRow(*row)
    if _is_path(word):
        return None
    if row := connection.execute(f"{_SELECT} WHERE name = ? {_NEWEST} LIMIT 1", (word,)).fetchone():
        return RunRow(*row)
    starting = (
        connection.execute(f"{_SELECT} WHERE substr(run_id, 1, ?) = ? {_NEWEST}", (len(word), word)).fetchall()
        if word
        else []
    )
    if len(starting) == 1:
        return RunRow(*starting[0])
    if starting:
        more = f", … ({len(starting)} in all)" if len(starting) > 8 else ""
        raise UsageError(f"'{word}' matches several runs: {', '.join(row[0] for row in starting[:8])}{more}")
    raise _none(connection, word)


def _is_path(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long, or with a NUL: no path
        return False


def _none(connection: Connection, word: str) -> UsageError:
    known = [text for row in connection.execute("SELECT run_id, name FROM runs") for text in row]
    hint = did_you_mean(word, known) or " `torchstone runs` lists what is stored."
    return UsageError(f"no run '{word}' (give a path, an id or its prefix, a name, or latest).{hint}")


def _trials(connection: Connection, run_id: str) -> tuple[TrialRow, ...]:
    found = connection.execute(
        "SELECT trial_id, case_id, number, ord, purpose, status, message, reason, reason_values, duration_s, facts,"
        " figures, disturbed"
        " FROM trials"
        " WHERE run_id = ? ORDER BY place",
        (run_id,),
    )
    # Made once: for 10,000 trials, a decoder or an equal outcome a row would be most of the time of `show`.
    outcome_of = functools.cache(_outcome)
    facts_of = msgspec.json.Decoder(Facts).decode
    figures_of = msgspec.json.Decoder(Figures).decode
    return tuple(
        TrialRow(
            trial_id,
            case_id,
            number,
            order,
            outcome_of(status, message, reason, values),
            None if '"imported_from"' in facts else duration_s,
            facts_of(facts) if '"nonfinite"' not in facts else decode(facts.encode(), Facts),
            figures_of(figures),
            Purpose(purpose),
            bool(disturbed),
        )
        for (
            trial_id,
            case_id,
            number,
            order,
            purpose,
            status,
            message,
            reason,
            values,
            duration_s,
            facts,
            figures,
            disturbed,
        ) in found
    )


def _outcome(status: str, message: str | None, reason: str | None, values: str) -> Outcome:
    if reason is None:
        return Outcome(Status(status), message)
    return Outcome(Status(status), message, None, Reason(reason), decode(values.encode(), dict[str, Value]))


def entry_of(run: Run, path: Path) -> Entry:
    """Return a run that was read whole (from `path`) as the index would know it."""
    head = run.head
    trials = tuple(trial_row(trial) for trial in run.trials)
    row = RunRow(
        head.run_id,
        head.name,
        head.started_utc,
        run.end.status if run.end else CUT_OFF,
        head.machine.host.hostname,
        " ".join(sorted({str(case.placement) for case in head.plan.cases})),
        len(head.plan.cases),
        len(trials),
        sum(t.outcome.status == Status.OK for t in trials),
        path.name,
    )
    return Entry(row, path, head, run.findings, trials, run.answer)


def trial_row(t: Trial) -> TrialRow:
    """Return a trial as the index holds it: without raw values."""
    duration_s = None if t.facts.imported_from is not None else t.duration_s
    outcome = msgspec.structs.replace(t.outcome, traceback=None)
    return TrialRow(
        t.trial_id, t.case_id, t.number, t.order, outcome, duration_s, t.facts, figures(t), t.purpose, t.disturbed
    )
