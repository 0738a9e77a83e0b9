"""What `torchstone.Diagnostics` measured as a Document: the diagnosis of it, and below it the cases of each device.

A row for each device and batch size, what failed and what was skipped among them. Its pictures have one panel per
device, and a word where a batch size had no room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, Spec
from torchstone.core.errors import UsageError
from torchstone.core.figures import PHASE
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import Placement
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import DEVICE_PEAKS, HOST_PEAK, PHASES
from torchstone.core.schema.trial import Status
from torchstone.report.document import Chart, Column, Document, Fields, Part, Section, Table, Text, paragraphs
from torchstone.report.documents.diagnosis import diagnosis_document
from torchstone.report.documents.findings import finding_parts
from torchstone.report.documents.run_answer import answer_lines

Row = dict[str, Scalar]

PHASE_COLUMNS = {f"{phase}_s": f"phase_{phase}_s" for phase in PHASES}
HOST_MEMORY, DEVICE_MEMORY = HOST_PEAK, DEVICE_PEAKS[0]
# Column ← figure. Times are means of a step.
COLUMNS = {
    "throughput": "throughput",
    "step_s": "step_time_mean",
    **PHASE_COLUMNS,
    HOST_MEMORY: HOST_MEMORY,
    DEVICE_MEMORY: DEVICE_MEMORY,
    "device_utilization": "device_utilization",
    "loss_last": "loss_last",
}
LOW, HIGH = "throughput_low", "throughput_high"  # ends of the 95 % interval over trials; None of one trial
SKIPPED = "skipped"


class Swept(msgspec.Struct, frozen=True):
    """A run over batch sizes and devices. `skipped`: devices that are not here, and why."""

    summary: RunSummary
    skipped: Mapping[str, str]


def sweep_rows(swept: Swept) -> list[Row]:
    """Return the rows in the order measured. What was not measured is None, never 0."""
    rows = [_row(case) for case in swept.summary.cases]
    for device, why in swept.skipped.items():
        rows.append({**dict.fromkeys(rows[0]), "device": device, "status": SKIPPED, "message": why})
    return rows


def _row(case: CaseSummary) -> Row:
    failed = next((t.outcome for t in case.trials if t.outcome.status != Status.OK), None)
    return {
        "device": str(case.placement),
        "batch_size": case.configuration["batch_size"],
        "status": str(Status.OK if failed is None else failed.status),
        "message": None if failed is None else failed.message,
        **{column: _value(case, figure) for column, figure in COLUMNS.items()},
        **_ends(case),
        "verdict": str(case.verdict),
    }


def _ends(case: CaseSummary) -> Row:
    found = case.estimates.get("throughput")
    return {LOW: found.low if found is not None else None, HIGH: found.high if found is not None else None}


def _value(case: CaseSummary, figure: str) -> float | None:
    found = case.estimates.get(figure)
    return None if found is None else found.value


def sweep_document(swept: Swept, diagnosis: Diagnosis, pictures: Sequence[Chart] = ()) -> Document:
    """Return the page. `pictures`: those that were drawn beside it."""
    document = diagnosis_document(diagnosis)
    return Document(document.title, (*document.parts, *_parts(swept, pictures)))


def _parts(swept: Swept, pictures: Sequence[Chart]) -> Iterator[Part]:
    run = swept.summary
    yield Section("Measured", paragraphs([*answer_lines(run), *_how(run)]))
    for placement in dict.fromkeys(case.placement for case in run.cases):
        own = [case for case in run.cases if case.placement == placement]
        yield Section(f"On {_named(placement, run)}", (measured_cases(own), *_ran_out(own)))
    if doubts := tuple(finding_parts(run)):
        yield Section("What to doubt", doubts)
    if swept.skipped:
        yield Section("Skipped", (Fields(tuple(swept.skipped.items())),))
    if pictures:
        yield Section("Pictures", tuple(pictures))


def _ran_out(cases: Sequence[CaseSummary]) -> Iterator[Text]:
    for case in cases:
        for message in {t.outcome.message for t in case.trials if t.outcome.status == Status.OUT_OF_MEMORY}:
            yield Text(f"Batch size {case.configuration.get('batch_size')} ran out of memory: {message}.")


def _how(run: RunSummary) -> Iterator[str]:
    software, trials, host = run.machine.software, run.procedure.repetitions, run.machine.host
    steps = f"{run.procedure.iterations} steps" + (f" in each of {trials} trials" if trials > 1 else "")
    yield f"Training steps of {run.name}, {steps} a batch size, in one process; run {run.run_id}."
    machine = f"{host.processor}, {host.logical_cores} logical cores"
    yield f"{machine}; torch {software.get('torch')}, Python {software.get('python')}."
    yield "Rates are all samples over all time. Phases are means of a pass of their own, which is cut into them."


def _named(placement: Placement, run: RunSummary) -> str:
    info = run.machine.device(placement.device, placement.index)
    return f"{placement} ({info.name})" if info is not None else str(placement)


# ── the table of cases ──────────────────────────────────────────────────────────────────────────────────────


def measured_cases(cases: Sequence[CaseSummary]) -> Table:
    """Return a row a Case. What none of them has is no column."""
    return Table(tuple(_columns(cases)))


def _columns(cases: Sequence[CaseSummary]) -> Iterator[Column]:
    for axis in varying_axes(cases):
        yield Column(axis.replace("_", " "), tuple(scalar_word(case.configuration.get(axis)) for case in cases))
    yield Column("ended", tuple(_ended(case) for case in cases), 1, left=True)
    yield from _figure(cases, f"{cases[0].workload.item}s/s", ("throughput",), lambda e: units.significant(e.value, 4))
    spreads = tuple(units.spread(e.value, e.low, e.high) if (e := _of(one, ("throughput",))) else "" for one in cases)
    if any(spreads):
        yield Column("±", spreads)
    yield from _figure(cases, "step", ("step_time_mean",), _time)
    for phase in PHASES:
        yield from _figure(cases, phase, (f"{PHASE}{phase}_s",), _time, 4)
    device = cases[0].placement.device
    yield from _figure(cases, "host memory", (HOST_PEAK,), _bytes, 3)
    if device != "cpu":
        yield from _figure(cases, "device memory", DEVICE_PEAKS, _bytes, 3)
    yield Column("verdict", tuple(str(case.verdict) for case in cases), 1, left=True)


def _figure(
    cases: Sequence[CaseSummary], title: str, figures: Sequence[str], shown: Callable[[Estimate], str], rank: int = 0
) -> Iterator[Column]:
    found = [_of(case, figures) for case in cases]
    if any(found):
        yield Column(title, tuple(shown(e) if e is not None else units.MISSING for e in found), rank)


def _of(case: CaseSummary, figures: Sequence[str]) -> Estimate | None:
    return next((case.estimates[name] for name in figures if name in case.estimates), None)


def _time(found: Estimate) -> str:
    return units.quantity(found.value, "s")


def _bytes(found: Estimate) -> str:
    return units.quantity(found.value, "bytes")


def _ended(case: CaseSummary) -> str:
    ends = Counter(trial.outcome.status for trial in case.trials)
    failed = next((status for status in ends if status != Status.OK), None)
    if failed is None:
        return "ok" if ends else "not measured"
    told = str(failed).replace("_", " ")
    return f"{told} ({ends[failed]} of {ends.total()})" if Status.OK in ends else told


# ── its pictures ──────────────────────────────────────────────────────────────────────────────────────────────


_WIDTH, _HEIGHT = 380, 260
_WORDS = {Status.OUT_OF_MEMORY: "out of memory", Status.UNSUPPORTED: "cannot be done"}
_MEMORY_SHADES = {HOST_MEMORY: "#0072b2", DEVICE_MEMORY: "#e69f00"}  # also where one of them is not there


def throughput(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return items/s over batch size, with its interval; of a single trial it is said that there is none."""
    marks = (vl.interval_bar(LOW, HIGH), vl.line(), *vl.values_above("throughput"))
    y = vl.number_axis("throughput", "samples/s")
    panels = [_panel(device, own, y, _measured(own), marks) for device, own in _by_device(rows)]
    is_known = any(row.get(LOW) is not None for row in rows)
    bars = "bars: 95 % confidence intervals over trials" if is_known else "one trial a case: no interval"
    return Picture("Throughput by batch size", tuple(panels), f"{subtitle}; {bars}")


def time_breakdown(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return where the time of a step goes: in ms, and as shares."""
    panels = []
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "phase": phase, "place": place, "ms": 1e3 * float(spent)}
            for row in own
            for place, phase in enumerate(PHASES)
            if (spent := row.get(f"{phase}_s")) is not None
        ]
        shades = vl.phase_colours({value["phase"] for value in values})
        for title, y in (("ms a step", vl.number_axis), ("share of the step", vl.share_axis)):
            panels.append(_panel(f"{device}: {title}", own, y("ms", title), values, (vl.bars(),), shades))
    title = "Where the time of a training step goes"
    return Picture(title, tuple(panels), subtitle, columns=2, one_legend=True)


def memory(rows: Sequence[Row], subtitle: str) -> Picture:
    """Return the peaks of host and device memory."""
    panels = []
    names = {HOST_MEMORY: "host (resident)", DEVICE_MEMORY: "device (reserved)"}
    kinds = {column: name for column, name in names.items() if any(row.get(column) is not None for row in rows)}
    shades = vl.shaded("kind", {name: _MEMORY_SHADES[column] for column, name in kinds.items()})
    for device, own in _by_device(rows):
        values = [
            {"batch": str(row["batch_size"]), "kind": kind, "mib": float(held) / 2**20}
            for row in own
            for column, kind in kinds.items()
            if (held := row.get(column)) is not None
        ]
        panels.append(_panel(device, own, vl.number_axis("mib", "peak, MiB"), values, (vl.line(),), shades))
    return Picture("Memory by batch size", tuple(panels), subtitle, one_legend=True)


def _by_device(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["batch_size"] is not None:  # a device that was skipped has none
            found.setdefault(str(row["device"]), []).append(row)
    measured = [(device, own) for device, own in found.items() if any(row["throughput"] is not None for row in own)]
    if not measured:
        raise UsageError("nothing was measured to the end: nothing to draw; .results() says why")
    return measured


def _measured(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    return [
        {"batch": str(row["batch_size"]), **{name: row.get(name) for name in ("throughput", LOW, HIGH)}}
        for row in rows
        if row["throughput"] is not None
    ]


def _panel(
    title: str, rows: Sequence[Row], y: Spec, values: vl.Values, marks: Sequence[Spec], shades: Spec | None = None
) -> Panel:
    """Return one chart over the batch sizes of a device; those that failed have their place, and a word in it."""
    sizes = [str(row["batch_size"]) for row in sorted(rows, key=lambda row: int(row["batch_size"] or 0))]
    x = vl.steps("batch", "batch size", list(dict.fromkeys(sizes)))
    failed = [
        {"batch": str(row["batch_size"]), "word": _WORDS.get(Status(str(row["status"])), str(row["status"]))}
        for row in rows
        if row["status"] != Status.OK
    ]
    drawn = (*vl.failures(failed), *marks)
    return vl.panel(title, x, y, drawn, values, shades, width=_WIDTH, height=_HEIGHT)
