"""The rows of a run in a database, and the tables of the list pages: a row per run, case, finding and series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.core.estimates import interval_of, pair_prior, priors_of, rounds_of_run
from torchstone.core.figures import Figures
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, model_name, portable
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Finding, Verdict, verdict
from torchstone.core.schema.metric import PEAKS
from torchstone.core.schema.run import Head, Run
from torchstone.core.schema.trial import (
    Outcome,
    Purpose,
    Status,
    Trial,
    ended_well,
    estimation_trials,
    replicates,
    undisturbed,
)
from torchstone.core.stats.moderated import Prior
from torchstone.storage.database import Connection

RATE = "throughput"
# What is kept of each trial in the row of its run: a choice over the whole store reads a row a run, and no trial.
_PACES = (RATE, "output_token_throughput", "energy_per_item_j")
KEPT = (*_PACES, *PEAKS, "loss_rate_per_1000_items")
_NAMED = 3  # workloads, and devices, that a line of a list names
_LONGEST = 4000  # characters of a run that a search looks through
_CUT = 200  # characters of a name or a setting in a list
_WORST_FIRST = (Verdict.INVALID, Verdict.SUSPECT, Verdict.VALID)


class CaseRow(msgspec.Struct, frozen=True):
    """One Case of a run. `counted`: its successful replicates, 0 in a live comparison, whose turns are short.

    `rate`: items/s with the 95 % confidence interval over those trials, as `show` has it; None where there is none.
    """

    run_id: str
    place: int
    case_id: str
    started_utc: str
    task: str
    model: str
    settings: str
    device_name: str
    host: str
    verdict: str
    trials: int
    counted: int
    rate: float | None
    low: float | None
    high: float | None


class Rated(NamedTuple):
    """One trial: how it ended, why it was taken, and its throughput in items/s; None where it has none."""

    outcome: Outcome
    purpose: Purpose
    rate: float | None
    disturbed: bool = False


class Throughput(NamedTuple):
    """A throughput in items/s with its 95 % confidence interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None


def rates_of(cases: Sequence[Sequence[Rated]], usual: float | None) -> list[Throughput]:
    """Return the throughput of each Case of a run, the same as in its summary (analysis/summary.py).

    `cases`: the trials of each. `usual`: the deviation of the machine's earlier runs (`Head.usual`).
    """
    return rates_of_values([believed_rates(own) for own in cases], usual)


def believed_rates(trials: Sequence[Rated]) -> list[float]:
    """Return the throughput of each trial of a Case that stands behind its estimate."""
    return [one.rate for one in estimation_trials(ended_well(trials)) if one.rate is not None]


def rates_of_values(values: Sequence[Sequence[float]], usual: float | None) -> list[Throughput]:
    """Return the same from what `believed_rates` gave for each Case."""
    priors = priors_of([[Figures({RATE: value}, {}) for value in own] for own in values], usual)
    return [_rate(own, prior.get(RATE)) for own, prior in zip(values, priors, strict=True)]


def _rate(values: Sequence[float], prior: Prior | None) -> Throughput:
    return Throughput(*interval_of(RATE, values, prior=prior)[:3]) if values else Throughput(None, None, None)


def case_index_rows(run: Run, derived: Sequence[Figures], priors: Sequence[Mapping[str, Prior]]) -> Iterator[CaseRow]:
    """Yield one row a Case. `derived`: the figures of each trial, in the order of the run's trials."""
    head = run.head
    taken: dict[str, list[Rated]] = {case.case_id: [] for case in head.plan.cases}
    for trial, found in zip(run.trials, derived, strict=True):
        taken[trial.case_id].append(Rated(trial.outcome, trial.purpose, found.values.get(RATE), trial.disturbed))
    noted: dict[str, list[Finding]] = {}
    for finding in run.findings:
        noted.setdefault(finding.subject, []).append(finding)
    for place, (case, prior) in enumerate(zip(head.plan.cases, priors, strict=True)):
        case_id = case.case_id
        rate = _rate(believed_rates(taken[case_id]), prior.get(RATE))
        own = taken[case_id]
        counted = len(replicates(ended_well(own))) if head.ab is None else 0
        yield CaseRow(
            head.run_id,
            place,
            case_id,
            head.started_utc,
            str(case.workload.task),
            (portable if case.workload.is_program else model_name)(case.workload.model)[:_CUT],
            settings_words(case.configuration)[:_CUT],
            device_name(head, case)[:_CUT],
            head.machine.host.hostname[:_CUT],
            str(_verdict(own, noted.get(case_id, ()))) if run.end is not None else "",
            len(own),
            counted,
            *(rate if counted else Throughput(None, None, None)),
        )


def run_readings(run: Run, derived: Sequence[Figures], priors: Sequence[Mapping[str, Prior]]) -> Mapping[str, object]:
    """Return the figures KEPT of each Case that has a replicate that ended well.

    Of each: how many trials its estimate has, their rounds and templates, by name the figure of each of them (None
    where one has none), and what moderates its interval; of all what moderates that of a ratio of two. `derived`,
    `priors`: as in case_rows.
    """
    moderates = {case.case_id: prior for case, prior in zip(run.head.plan.cases, priors, strict=True)}
    head = run.head
    taken: dict[str, list[tuple[Trial, Figures]]] = {}
    for trial, found in zip(run.trials, derived, strict=True):
        if head.ab is None and replicates(ended_well((trial,))):  # the turns of a live comparison are short
            taken.setdefault(trial.case_id, []).append((trial, found))
    readings = []
    for case_id, own in taken.items():
        wanted = undisturbed([trial.disturbed for trial, _ in own])
        kept = [pair for pair, keep in zip(own, wanted, strict=True) if keep]
        columns = {name: [_finite(found.values.get(name)) for _, found in kept] for name in KEPT}
        figures = {name: column for name, column in columns.items() if column.count(None) < len(kept)}
        told = {name: prior for name, prior in moderates[case_id].items() if name in figures}
        numbers, templates = zip(*((trial.number, trial.facts.template) for trial, _ in kept), strict=True)
        of_trials = {"trials": len(kept), "numbers": numbers, "templates": templates}
        readings.append({"case_id": case_id, **of_trials, "figures": figures, "priors": told})
    rounds = rounds_of_run(run, derived)
    pairs = {name: prior for name in _PACES if (prior := pair_prior(name, rounds)) is not None}
    return {"readings": readings, "pair_priors": pairs}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _verdict(trials: Sequence[Rated], findings: Sequence[Finding]) -> Verdict | str:
    """Return the verdict of a Case; "" before its first trial."""
    if not trials:
        return ""
    return verdict(tuple(findings)) if ended_well(trials) else Verdict.INVALID


def device_name(head: Head, case: Case) -> str:
    """Return the name of the device of a Case; its Placement's word where the record does not tell."""
    device = head.machine.device(case.placement.device, case.placement.index)
    return device.name if device is not None else str(case.placement)


def settings_words(configuration: Mapping[str, Scalar]) -> str:
    """Return a Case's batch size, and what is not as usual: "batch_size 16, precision bf16"."""
    told = (
        f"{axis} {value}"
        for axis, value in configuration.items()
        if axis == "batch_size" or (axis in AXES and value != AXES[axis].default)
    )
    return ", ".join(told)


class RunLine(msgspec.Struct, frozen=True):
    """One run in a list. `verdict`: the worst of its cases', "" before the first trial; `words`: what is searched."""

    started_utc: str
    run_id: str
    name: str
    status: str
    host: str
    cases: int
    trials: int
    ok: int
    verdict: str
    work: str
    devices: str
    words: str


def run_line(run: Run, status: str, rows: Sequence[CaseRow]) -> RunLine:
    """Return it. Cases whose device the machine does not have are no reason to doubt the others."""
    head = run.head
    here = set(head.measurable)
    verdicts = {row.verdict for row in rows if row.place in here}
    worst = next((str(one) for one in _WORST_FIRST if str(one) in verdicts), "")
    work = list(dict.fromkeys(f"{row.task} {row.model}" for row in rows))
    devices = list(dict.fromkeys(row.device_name for row in rows if row.place in here or not here))
    software = [f"{name} {version}" for name, version in head.machine.software.items() if version]
    about = [
        head.run_id,
        head.name,
        head.machine.host.hostname,
        " ".join(head.command),
        *work,
        *devices,
        *dict.fromkeys(case.workload.data for case in head.plan.cases),
        *software,
    ]
    return RunLine(
        head.started_utc,
        head.run_id,
        head.name[:_CUT],
        status,
        head.machine.host.hostname[:_CUT],
        len(head.plan.cases),
        len(run.trials),
        sum(trial.outcome.status == Status.OK for trial in run.trials),
        worst,
        _named(work),
        _named(devices),
        "\n".join(about).casefold()[:_LONGEST],
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


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
    summed = tuple(case_index_rows(run, derived, priors))
    trials = [
        (
            *(head.run_id, place, trial.trial_id, trial.case_id, trial.number, trial.order, str(trial.purpose)),
            *(str(trial.outcome.status), trial.outcome.message, trial.outcome.reason, _text(trial.outcome.values)),
            *(trial.duration_s, _text(trial.facts), _text(found), int(trial.disturbed)),
        )
        for place, (trial, found) in enumerate(zip(run.trials, derived, strict=True))
    ]
    ok = sum(row[7] == "ok" for row in trials)
    row = (
        *(head.run_id, head.name, head.started_utc, status, head.machine.host.hostname, " ".join(devices)),
        *(len(head.plan.cases), len(trials), ok, file, size, mtime_ns, _text(head), _text({"findings": run.findings})),
        _text(run.answer) if run.answer is not None else None,
        _text(run_readings(run, derived, priors)),
    )
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
