"""Several runs as one Document: what each answers, training and inference of a model side by side, then each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from torchstone.analysis.advice.grouping import groups, on_devices_here, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.case import Task, model_name
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.report.charts.cases import device_names
from torchstone.report.document import Chart, Column, Document, Part, Role, Section, Table, Text
from torchstone.report.documents.run_answer import point_words, rate_of

_PURPOSES = {
    Task.TRAIN: "training",
    Task.INFER: "inference",
    Task.GENERATE: "generation",
    Task.LOAD: "data loading",
    Task.LOADGEN: "serving",
    Task.CALL: "calls",
}
_MOST_NAMED = 3  # models in the title
_TITLE = "Fastest settings of each model, device and task"


class _Fastest(msgspec.Struct, frozen=True):
    """The fastest Case of a workload on one device, and in which settings it differs from the others of its run."""

    model: str
    device: str
    purpose: str
    settings: str
    run: str
    case: CaseSummary
    rate: Estimate | None


def combined_document(runs: Sequence[RunSummary], documents: Sequence[Document]) -> Document:
    """Return one report of several runs; `documents`: the report of each, in the same order."""
    rows = sorted(chain.from_iterable(map(_rows, runs)), key=lambda row: (row.model, row.device))
    names = [f"{_purpose(run)}: {run.name} ({run.run_id})" for run in runs]
    sections = tuple(
        Section(name, tuple(_prefixed(document.parts, f"run{number}")))
        for number, (name, document) in enumerate(zip(names, documents, strict=True), 1)
    )
    table = (Section(_TITLE, (_table(rows),)),) if rows else ()
    return Document(_title(runs), (*_answers(runs, documents), *table, *sections))


def _purposes(runs: Sequence[RunSummary]) -> list[str]:
    return list(dict.fromkeys(_PURPOSES[case.workload.task] for run in runs for case in run.cases))


def _purpose(run: RunSummary) -> str:
    return " and ".join(_purposes([run])).capitalize() or "Run"


def _title(runs: Sequence[RunSummary]) -> str:
    """Return "Training and inference of bert"."""
    models = list(dict.fromkeys(model_name(case.workload.model) for run in runs for case in run.cases))
    more = f" and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else ""
    purposes = " and ".join(_purposes(runs)) or "nothing"
    return f"{purposes.capitalize()} of {', '.join(models[:_MOST_NAMED])}{more}" if models else f"{len(runs)} runs"


def _answers(runs: Sequence[RunSummary], documents: Sequence[Document]) -> Iterator[Text]:
    """Yield the answer of each run."""
    for run, document in zip(runs, documents, strict=True):
        yield Text(f"{_purpose(run)} ({run.name}): {document.headline or 'nothing was measured.'}", Role.HEADLINE)


def _rows(run: RunSummary) -> Iterator[_Fastest]:
    """Yield the fastest valid Case of each workload and device of a run; of equals the first."""
    name_of = device_names(run.machine)
    for cases in groups(on_devices_here(run)):
        judged = [(case, rate_of(case)) for case in cases if case.verdict == Verdict.VALID]
        valid = [(case, rate) for case, rate in judged if rate is not None]
        narrow = [(case, rate) for case, rate in valid if not rate.is_wide]
        best, rate = max(narrow or valid, key=lambda one: one[1].value, default=(cases[0], None))
        point = {axis: best.configuration.get(axis) for axis in varying_axes(cases)}
        point.setdefault("batch_size", best.configuration.get("batch_size"))
        yield _Fastest(
            model_name(best.workload.model),
            name_of(best),
            _PURPOSES[best.workload.task],
            point_words({axis: value for axis, value in point.items() if value is not None}),
            run.name,
            best,
            rate,
        )


def _table(rows: Sequence[_Fastest]) -> Table:
    rates = tuple(map(_rate, rows))
    around = tuple(units.spread(row.rate.value, row.rate.low, row.rate.high) if row.rate else "" for row in rows)
    steps = tuple(_step(row.case) for row in rows)
    memory = tuple(units.quantity(row.case.peak_memory_bytes, "bytes") for row in rows)
    return Table.of(
        Column("model", tuple(row.model for row in rows), left=True, shorten=True),
        Column("device", tuple(row.device for row in rows), 2, left=True, shorten=True),
        Column("task", tuple(row.purpose for row in rows), left=True),
        Column("settings", tuple(row.settings for row in rows), 1, left=True),
        Column("throughput", rates),
        Column("±", around, 1, of=4),
        Column("a step", steps, 3),
        Column("peak memory", memory, 2),
        Column("verdict", tuple(str(row.case.verdict) for row in rows), 3, left=True),
        Column("run", tuple(row.run for row in rows), 4, left=True, shorten=True),
    )


def _rate(row: _Fastest) -> str:
    if row.rate is None:
        return units.MISSING
    per = f"{row.case.workload.item}s/s" if row.rate is row.case.estimates.get("throughput") else row.rate.unit
    return f"{units.significant(row.rate.value, 4)} {per}"


def _step(case: CaseSummary) -> str:
    found = next(
        (case.estimates[n] for n in ("step_time_mean", "latency_per_batch_p50_s") if n in case.estimates), None
    )
    return units.quantity(found.value if found is not None else None, "s")


def _prefixed(parts: Sequence[Part], prefix: str) -> Iterator[Part]:
    """Yield the parts of one run: its answer no headline of the whole, its pictures under names of their own."""
    for part in parts:
        if isinstance(part, Section):
            yield msgspec.structs.replace(part, parts=tuple(_prefixed(part.parts, prefix)))
        elif isinstance(part, Chart):
            yield msgspec.structs.replace(part, name=f"{prefix}_{part.name}")
        elif isinstance(part, Text) and part.role == Role.HEADLINE:
            yield msgspec.structs.replace(part, role=Role.BODY)
        else:
            yield part
