"""What a list says of runs and cases: the kind of a run with its answer, and how a case's throughput went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.analysis.compare.ab_sides import times_as_fast
from torchstone.core import units
from torchstone.core.schema.answer import AbResult, Answer, TuneResult
from torchstone.core.schema.codec import decode
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.training import Training
from torchstone.report.diagnosis_messages import text
from torchstone.report.documents.diagnosis import limit_words
from torchstone.report.documents.run_answer import point_words
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import cases_of
from torchstone.storage.database import Connection
from torchstone.storage.rows import CaseRow

_FASTER = {Judgement.BETTER: "faster", Judgement.WORSE: "slower"}
_POINTS = 20  # runs of a sparkline
_WIDTH, _HEIGHT, _EDGE = 120.0, 24.0, 3.0  # points of one
_SAME = 0.02  # of a rate, within which two runs do not differ


class RunAnswer(NamedTuple):
    """The kind of a run, and its answer; "" where there is none yet."""

    kind: str
    answer: str


class _Workload(msgspec.Struct):
    item: str = "item"


class _Case(msgspec.Struct):
    workload: _Workload


class _Plan(msgspec.Struct):
    cases: tuple[_Case, ...]


class _Head(msgspec.Struct):
    command: tuple[str, ...]
    plan: _Plan


def answered(connection: Connection, run_id: str) -> RunAnswer:
    """Return what a run answered, from the index alone."""
    found = connection.execute("SELECT head, answer FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if found is None:
        return RunAnswer("", "")
    head: _Head = decode(found[0].encode(), _Head)
    answer: Answer | None = decode(found[1].encode(), Answer) if found[1] is not None else None
    rows = cases_of(connection, run_id)
    planned = [case.workload.item for case in head.plan.cases]
    items = {row.case_id: planned[row.place] for row in rows}
    match answer:
        case AbResult():
            return RunAnswer("ab", _compared(answer))
        case TuneResult():
            best = answer.recommended
            final = [row for row in rows if row.counted]
            if final and all(row.verdict != Verdict.VALID for row in final):  # what is in doubt wins nothing
                return RunAnswer("tune", localized("{0} of {1} cases VALID", 0, len(final)))
            return RunAnswer("tune", f"{point_words(best.point)} · {_tuned(answer, items.get(best.case_id, 'item'))}")
        case Diagnosis():
            first = next(iter(answer.causes), None)
            return RunAnswer("diagnose", f"{text(first.title)}: {limit_words(first)}" if first is not None else "")
        case Training():
            return RunAnswer("train", _trained(answer))
        case _:
            kind = head.command[0] if head.command else "run"
            return RunAnswer(kind, _measured(rows, items))


def _compared(answer: AbResult) -> str:
    found = answer.comparison
    sides = f"{found.candidate.label} against {found.baseline.label}"
    if found.ratio is None or found.verdict == Judgement.NOT_COMPARABLE:
        return f"{sides} · {localized(str(found.verdict))}"
    ratio = units.ratio(*times_as_fast(found.ratio))
    return f"{sides} · {ratio} {localized(_FASTER.get(found.verdict, str(found.verdict)))}"


def _tuned(answer: TuneResult, item: str) -> str:
    best = answer.recommended
    return short_rate(best.throughput, best.throughput_low, best.throughput_high, item)


def _trained(answer: Training) -> str:
    metrics = answer.metrics
    if metrics is None or not metrics.epochs:
        return localized("not trained")
    best = next((e for e in metrics.epochs if e.epoch == metrics.best_epoch), metrics.epochs[-1])
    loss = best.val_loss if best.val_loss is not None else best.train_loss
    told = [f"loss {units.significant(loss, 4)}"]
    told += [f"accuracy {best.val_accuracy:.1%}"] if best.val_accuracy is not None else []
    return f"{', '.join(reversed(told))} (epoch {best.epoch} of {len(metrics.epochs)})"


def _measured(rows: Sequence[CaseRow], items: Mapping[str, str]) -> str:
    """Return the highest rate of what is VALID: what is in doubt wins nothing."""
    valid = [row for row in rows if row.rate is not None and row.verdict == Verdict.VALID]
    if not valid:
        return localized("{0} of {1} cases VALID", 0, len(rows)) if any(row.verdict for row in rows) else ""
    top = max(valid, key=lambda row: row.rate or 0.0)
    rate = short_rate(top.rate, top.low, top.high, items.get(top.case_id, "item"))
    return f"{top.settings} · {rate}" if len(rows) > 1 and top.settings else rate


def short_rate(value: float | None, low: float | None, high: float | None, item: str) -> str:
    """Return "164 images/s ±0.4 %", or in place of the interval why there is none."""
    if value is None:
        return units.MISSING
    around = units.spread(value, low, high) or localized("one trial: no interval")
    return f"{units.significant(value, 3)} {item}s/s {around}"


def item_of(connection: Connection, case_id: str) -> str:
    """Return what one item of a Case is, as its newest run has it."""
    found = connection.execute(
        "SELECT r.head, c.place FROM cases c JOIN runs r ON r.run_id = c.run_id WHERE c.case_id = ?"
        " ORDER BY c.started_utc DESC LIMIT 1",
        (case_id,),
    ).fetchone()
    return decode(found[0].encode(), _Head).plan.cases[found[1]].workload.item if found is not None else "item"


# ── how it went ─────────────────────────────────────────────────────────────────────────────────────────────


class Sparkline(NamedTuple):
    """The last runs of a case: points of a line for an SVG, and how the newest differs from the one before.

    `change`: "up", "down" or "": beyond both intervals and 2 %.
    """

    points: str
    change: str
    runs: int


def course(connection: Connection, case_id: str, device_name: str, host: str) -> Sparkline:
    """Return the Sparkline of a Case on one machine, by the throughput of its last 20 VALID runs."""
    found = connection.execute(
        "SELECT rate, low, high FROM cases WHERE case_id = ? AND device_name = ? AND host = ? AND counted > 0"
        " AND rate IS NOT NULL AND verdict = 'VALID' ORDER BY started_utc DESC LIMIT ?",
        (case_id, device_name, host, _POINTS),
    ).fetchall()
    return Sparkline(" ".join(_points([row[0] for row in reversed(found)])), _change(found), len(found))


def _points(rates: Sequence[float]) -> Iterator[str]:
    least, most = min(rates, default=0.0), max(rates, default=0.0)
    for n, rate in enumerate(rates):
        x = _EDGE + (_WIDTH - 2 * _EDGE) * n / max(1, len(rates) - 1)
        y = _HEIGHT / 2 if most == least else _EDGE + (_HEIGHT - 2 * _EDGE) * (most - rate) / (most - least)
        yield f"{x:.1f},{y:.1f}"


def _change(newest_first: Sequence[Sequence[float | None]]) -> str:
    if len(newest_first) < 2:
        return ""
    (rate, low, high), (before, least, most) = newest_first[:2]
    if rate is None or before is None or None in (low, high, least, most) or abs(rate / before - 1.0) < _SAME:
        return ""
    if low is not None and most is not None and low > most:
        return "up"
    return "down" if high is not None and least is not None and high < least else ""
