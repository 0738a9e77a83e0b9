"""Every measured case of all stored runs, from the index alone, and the usual spread between trials on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import decode
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.run import RequestSource, Usual
from torchstone.core.schema.trial import REPLICATE_COLUMNS, undisturbed
from torchstone.core.stats.moderated import Prior, Spread, trial_spread, typical_spread
from torchstone.storage.database import Connection, streamed
from torchstone.storage.index import Problem, current
from torchstone.storage.place import Place

_FEWEST_CASES = 3  # fewer say little of a machine
_MOST_CASES = 200  # the newest: a machine changes
_PACE = "throughput"


def usual_spread(folder: Path, machine: Machine) -> Usual | None:
    """Return what the runs of an output folder tell of this machine's trials; None where there are too few.

    Counted are cases with two trials and more in processes of their own, on this host and one of its devices.
    """
    if not (folder / "records").is_dir():
        return None
    found: list[tuple[str, Spread]] = []
    for one in reversed(stored_cases(folder, (_PACE,)).measured):
        spread = _spread(one, machine)
        if spread is not None:
            found.append((one.run_id, spread))
        if len(found) == _MOST_CASES:
            break
    if len(found) < _FEWEST_CASES or (deviation := typical_spread([spread for _, spread in found])) is None:
        return None
    return Usual(round(deviation, 6), len(found), len({run_id for run_id, _ in found}))


def _spread(one: MeasuredCase, machine: Machine) -> Spread | None:
    here = one.machine.host.hostname == machine.host.hostname
    device = machine.device(one.case.placement.device, one.case.placement.index)
    same = here and device is not None and one.device is not None and device.name == one.device.name
    if not same or one.procedure.get("isolation") not in ("fork", "spawn"):
        return None
    values = [value for value in one.values(_PACE) if value > 0.0]
    spread = trial_spread([math.log(value) for value in values])
    return spread if spread is not None and spread.variance > 0.0 else None


# What these find is that there is little to go by, which intervals say already: the figures themselves may be sound.
_FEW = ("few_trials", "few_samples")
_OF_RUN = "run_id, name, started_utc, head, findings"
_RUNS = f"SELECT {_OF_RUN} FROM runs"  # noqa: S608 -- names only


class MeasuredCase(msgspec.Struct, frozen=True, gc=False):  # in no cycle; a store has hundreds of thousands
    """One Case in one run. `trials`: how many stand behind its estimate; `figures`: of each of them, None: has none.

    `numbers`, `templates`: the round of each trial, and which template it was forked from; of `measured_kept` alone.
    `priors`: JSON, what moderates the intervals of its figures (core/estimates.py); only few of a store are looked at.
    `pair_priors`: the same of a ratio of two Cases of its run.
    `device`: what it ran on, where the record tells; `device_name`: its name, else the Placement's word. `facts`: of
    the first trial; `procedure`: as it was recorded; `code`: digests of the user's own files.
    """

    run_id: str
    name: str
    started_utc: str
    machine: Machine
    case: Case
    case_id: str
    trials: int
    figures: Mapping[str, Sequence[float | None]]
    facts: Facts
    findings: tuple[Finding, ...]
    procedure: Mapping[str, Any]
    device: DeviceInfo | None
    device_name: str
    source: RequestSource | None = None
    code: Mapping[str, str] = {}
    priors: str | msgspec.Raw = "{}"
    numbers: tuple[int, ...] = ()
    templates: tuple[int | None, ...] = ()
    pair_priors: str | msgspec.Raw = "{}"

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """The findings that make its figures doubtful; that there are few of them is not one."""
        return self.findings and tuple(f for f in self.findings if f.severity != Severity.INFO and f.check not in _FEW)

    def values(self, figure: str) -> list[float]:
        """Return that figure of every trial that has it."""
        return [value for value in self.figures.get(figure, ()) if value is not None]

    def prior(self, figure: str) -> Prior | None:
        """Return what moderates the interval of a figure; None where nothing does."""
        return _PRIORS.decode(self.priors).get(figure)

    def pair_prior(self, figure: str) -> Prior | None:
        """Return what moderates the interval of a figure's ratio to that of another Case of the run."""
        return _PRIORS.decode(self.pair_priors).get(figure)


class _PlanPart(msgspec.Struct):
    cases: msgspec.Raw


class _HeadPart(msgspec.Struct):
    """What is wanted of a head; a long plan's order is not."""

    machine: msgspec.Raw
    procedure: dict[str, Any]
    plan: _PlanPart
    source: RequestSource | None = None
    code: dict[str, str] = {}
    ab: Any = None  # of an ab


class _FindingsLine(msgspec.Struct):
    findings: tuple[Finding, ...]


# Made once: a store has a hundred thousand of each.
_HEAD, _FINDINGS = msgspec.json.Decoder(_HeadPart), msgspec.json.Decoder(_FindingsLine)


class MeasuredCases(msgspec.Struct, frozen=True):
    """What is stored, oldest run first. `runs`: how many there are, those without a figure too."""

    measured: tuple[MeasuredCase, ...]
    runs: int
    problems: tuple[Problem, ...] = ()


def stored_cases(place: Place, figures: Sequence[str]) -> MeasuredCases:
    """Return every measured Case of an output folder, or of a team's store, with these figures of its trials.

    Of a Case's trials there are those behind its estimate (`estimation_trials`). Left out are the trials of searches,
    since the best of many looks better than it is, and the short turns of `ab`.
    """
    with current(place) as (connection, problems):
        trials = _trials(connection, figures)
        rows = connection.execute(f"{_RUNS} ORDER BY started_utc, run_id").fetchall()
    known = _DecodedOnce()
    found = tuple(one for row in rows for one in _of_run(row, trials.get(row[0], {}), known))
    return MeasuredCases(found, len(rows), problems)


def measured_kept(place: Place) -> MeasuredCases:
    """Return the same with the figures KEPT and no facts: of each run a row is read, and no trial."""
    known = _DecodedOnce()
    found: list[MeasuredCase] = []
    runs = 0
    with current(place) as (connection, problems):
        rows = streamed(connection, f"SELECT {_OF_RUN}, readings FROM runs ORDER BY started_utc, run_id", ())  # noqa: S608
        with rows as each:
            for *row, text in each:
                runs += 1
                try:
                    stored = _READINGS.decode(text)
                except msgspec.MsgspecError as fault:  # somebody else than torchstone wrote it
                    raise ValueError(f"run {row[0]}: {fault}") from fault
                values = {
                    one.case_id: _Values(
                        one.trials, one.figures, one.priors, None, one.numbers, one.templates, stored.pair_priors
                    )
                    for one in stored.readings
                }
                found += _of_run(row, values, known)
    return MeasuredCases(tuple(found), runs, problems)


def stored_cases_by_id(place: Place, beginning: str, figures: Sequence[str]) -> MeasuredCases:
    """Return as `stored_cases` does the Cases alone whose id begins so, and all their runs: nothing else is read."""
    with current(place) as (connection, problems):
        (runs,) = connection.execute("SELECT COUNT(*) FROM runs").fetchone()
        cases = connection.execute(
            "SELECT DISTINCT case_id FROM cases WHERE substr(case_id, 1, ?) = ?", (len(beginning), beginning)
        ).fetchall()
        trials: _Trials = {}
        rows: dict[str, Sequence[str]] = {}
        for (case_id,) in cases:
            for run_id, own in _trials(connection, figures, case_id).items():
                trials.setdefault(run_id, {}).update(own)
            of_case = f"{_RUNS} WHERE run_id IN (SELECT run_id FROM cases WHERE case_id = ?)"  # noqa: S608 -- names only
            rows.update({row[0]: row for row in connection.execute(of_case, (case_id,))})
    known = _DecodedOnce()
    in_time = sorted(rows.values(), key=lambda row: (row[2], row[0]))
    found = tuple(one for row in in_time for one in _of_run(row, trials.get(row[0], {}), known))
    return MeasuredCases(found, runs, problems)


def measured_of_case(
    connection: Connection, case_id: str, figures: Sequence[str], newest: int
) -> tuple[MeasuredCase, ...]:
    """Return one Case as `stored_cases` does, oldest run first, of its newest runs only. Nothing else is read."""
    rows = connection.execute(
        f"{_RUNS} WHERE run_id IN (SELECT run_id FROM cases WHERE case_id = ? AND counted > 0"  # noqa: S608 -- names only
        " ORDER BY started_utc DESC LIMIT ?) ORDER BY started_utc, run_id",
        (case_id, newest),
    ).fetchall()
    read = _reader(figures)
    known = _DecodedOnce()
    every: list[MeasuredCase] = []
    for row in rows:
        found = connection.execute(
            "SELECT facts, figures, disturbed FROM trials WHERE case_id = :case_id AND run_id = :run_id"
            " AND status = :status AND purpose = :purpose ORDER BY place",
            {**REPLICATE_COLUMNS, "case_id": case_id, "run_id": row[0]},
        ).fetchall()
        if found:
            (priors,) = connection.execute(
                "SELECT priors FROM cases WHERE run_id = ? AND case_id = ? ORDER BY place LIMIT 1", (row[0], case_id)
            ).fetchone()
            own = [(read(text), bool(disturbed)) for _, text, disturbed in found]
            every += _of_run(row, {case_id: _values(own, figures, priors, found[0][0])}, known)
    return tuple(every)


class _Values(NamedTuple):
    """Of one Case in one run: how many trials stand behind its estimate, their figures, the facts of the first."""

    trials: int
    figures: Mapping[str, Sequence[float | None]]
    priors: str | msgspec.Raw
    facts: str | None = None
    numbers: tuple[int, ...] = ()
    templates: tuple[int | None, ...] = ()
    pair_priors: str | msgspec.Raw = "{}"


class _KeptValues(msgspec.Struct):
    case_id: str
    trials: int
    numbers: tuple[int, ...]
    templates: tuple[int | None, ...]
    figures: dict[str, tuple[float | None, ...]]  # the collector need not follow tuples of numbers
    priors: msgspec.Raw


class _TrialReadings(msgspec.Struct):
    readings: list[_KeptValues]
    pair_priors: msgspec.Raw


_READINGS = msgspec.json.Decoder(_TrialReadings)
_PRIORS = msgspec.json.Decoder(dict[str, Prior])


class _DecodedOnce:
    """Machines and Cases that come again and again, decoded once."""

    def __init__(self) -> None:
        self._machines: dict[bytes, Machine] = {}
        self._cases: dict[bytes, tuple[tuple[str, Case], ...]] = {}
        self._each: dict[bytes, tuple[str, Case]] = {}
        self._devices: dict[tuple[int, int], tuple[DeviceInfo | None, str]] = {}

    def machine(self, raw: msgspec.Raw) -> Machine:
        text = bytes(raw)
        if text not in self._machines:
            self._machines[text] = decode(text, Machine)
        return self._machines[text]

    def cases(self, raw: msgspec.Raw) -> tuple[tuple[str, Case], ...]:
        """Return the Cases of a plan with their ids: the same object for the same Case."""
        text = bytes(raw)
        if text not in self._cases:
            each: list[msgspec.Raw] = msgspec.json.decode(text, type=list[msgspec.Raw])
            self._cases[text] = tuple(map(self._case, each))
        return self._cases[text]

    def _case(self, raw: msgspec.Raw) -> tuple[str, Case]:
        text = bytes(raw)
        if text not in self._each:
            case: Case = decode(text, Case)
            self._each[text] = case.case_id, case
        return self._each[text]

    def device(self, machine: Machine, case: Case) -> tuple[DeviceInfo | None, str]:
        """Return what a Case ran on and its name. Both are of this object, which keeps them: their ids stay theirs."""
        key = id(machine), id(case)
        if key not in self._devices:
            found = machine.device(case.placement.device, case.placement.index)
            self._devices[key] = found, found.name if found is not None else str(case.placement)
        return self._devices[key]


_Trials = dict[str, dict[str, _Values]]  # by run and Case


def _of_run(row: Sequence[str], values: Mapping[str, _Values], known: _DecodedOnce) -> Iterator[MeasuredCase]:
    if not values:
        return
    run_id, name, started_utc, text, noted = row
    head = _HEAD.decode(text)
    if head.ab is not None:
        return
    by_case: dict[str, list[Finding]] = {}
    for finding in _FINDINGS.decode(noted).findings:
        by_case.setdefault(finding.subject, []).append(finding)
    machine = known.machine(head.machine)
    for case_id, case in known.cases(head.plan.cases):
        if (own := values.get(case_id)) is not None:
            device, device_name = known.device(machine, case)
            facts: Facts = decode(own.facts.encode(), Facts) if own.facts is not None else Facts()
            yield MeasuredCase(
                run_id,
                name,
                started_utc,
                machine,
                case,
                case_id,
                own.trials,
                own.figures,
                facts,
                tuple(by_case.get(case_id, ())),
                head.procedure,
                device,
                device_name,
                head.source,
                head.code,
                own.priors,
                own.numbers,
                own.templates,
                own.pair_priors,
            )


def _trials(connection: Connection, figures: Sequence[str], case_id: str | None = None) -> _Trials:
    read = _reader(figures)
    found: dict[tuple[str, str], tuple[list[tuple[Mapping[str, float], bool]], str]] = {}
    of_case = "" if case_id is None else " AND case_id = :case_id"
    every = streamed(
        connection,
        "SELECT run_id, case_id, facts, figures, disturbed FROM trials"  # noqa: S608
        f" WHERE status = :status AND purpose = :purpose{of_case} ORDER BY run_id, place",
        {**REPLICATE_COLUMNS, **({} if case_id is None else {"case_id": case_id})},
    )
    with every as rows:
        for run_id, case, facts, text, disturbed in rows:
            try:
                found.setdefault((run_id, case), ([], facts))[0].append((read(text), bool(disturbed)))
            except (msgspec.MsgspecError, ValueError) as fault:  # somebody else than torchstone wrote it
                raise ValueError(f"run {run_id}: {fault}") from fault
    kept: _Trials = {}
    priors = _priors(connection, case_id)
    for (run_id, case), (trials, facts) in found.items():
        kept.setdefault(run_id, {})[case] = _values(trials, figures, priors.get((run_id, case), "{}"), facts)
    return kept


def _priors(connection: Connection, case_id: str | None) -> dict[tuple[str, str], str]:
    """Return what moderates the intervals of each Case of each run, by run and Case."""
    of_case = "" if case_id is None else " WHERE case_id = ?"
    every = streamed(
        connection,
        f"SELECT run_id, case_id, priors FROM cases{of_case}",  # noqa: S608 -- names only
        () if case_id is None else (case_id,),
    )
    with every as rows:
        return {(run_id, case): text for run_id, case, text in rows if text != "{}"}


def _values(
    trials: Sequence[tuple[Mapping[str, float], bool]], figures: Sequence[str], priors: str, facts: str
) -> _Values:
    """Return these figures of the trials that stand behind a Case's estimate.

    `trials`: figures, and whether it was disturbed.
    """
    wanted = undisturbed([disturbed for _, disturbed in trials])
    kept = [found for (found, _), keep in zip(trials, wanted, strict=True) if keep]
    having = [name for name in figures if any(name in one for one in kept)]
    return _Values(len(kept), {name: tuple(one.get(name) for one in kept) for name in having}, priors, facts)


def _reader(figures: Sequence[str]) -> Callable[[str], Mapping[str, float]]:
    """Return what reads these figures from a row: all others are passed over, which takes a tenth of the time."""
    wanted = msgspec.defstruct("Wanted", [(name, float | msgspec.UnsetType, msgspec.UNSET) for name in figures])
    row = msgspec.defstruct("Row", [("values", wanted)])
    decoder = msgspec.json.Decoder(row)

    def read(text: str) -> Mapping[str, float]:
        found: dict[str, float] = msgspec.to_builtins(decoder.decode(text).values)  # type: ignore[attr-defined]
        return found

    return read
