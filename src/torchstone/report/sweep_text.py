"""The written report of a diagnosis, as Markdown: what was measured, what limits, what to change, what to doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice import batch_curve, curves
from torchstone.analysis.advice.advice import Advice
from torchstone.analysis.advice.devices import beside_the_cpu
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.analysis.sweep_table import DEVICE_MEMORY, HOST_MEMORY, PHASE_COLUMNS, SKIPPED, Row, Swept, rows_of
from torchstone.core import units
from torchstone.core.schema.trial import Status
from torchstone.report.markdown import bullet, doubts, inline, table

_COLUMNS = {
    "batch_size": ("batch size", ""), "status": ("ended", ""), "throughput": ("samples/s", "number"),
    "step_s": ("step", "s"), **{column: (column.removesuffix("_s"), "s") for column in PHASE_COLUMNS},
    HOST_MEMORY: ("host memory", "bytes"), DEVICE_MEMORY: ("device memory", "bytes"), "verdict": ("verdict", ""),
}  # fmt: skip


def report_of(swept: Swept, pictures: Sequence[str]) -> str:
    """Return the report. `pictures`: file names of those that were drawn beside it."""
    summary, rows = swept.summary, rows_of(swept)
    lines = [f"# Performance report: {inline(summary.name)}", "", *_about(summary)]
    devices = list(dict.fromkeys(str(case.placement) for case in summary.cases))
    for device in devices:
        own = [case for case in summary.cases if str(case.placement) == device]
        lines += ["", f"## On {_named(device, summary)}", "", *_table([row for row in rows if row["device"] == device])]
        lines += ["", *_seen(own, summary)]
    compared = beside_the_cpu(summary.cases)
    lines += ["", "## CPU and accelerator", ""] if compared else []
    lines += [line for one in compared for line in bullet(one.advice)]
    lines += doubts(summary)
    skipped = [f"- {inline(row['device'])}: {inline(row['message'])}" for row in rows if row["status"] == SKIPPED]
    lines += ["", "## Skipped", "", *skipped] if skipped else []
    lines += ["", "## Pictures", "", *(f"![{name}]({name})" for name in pictures)] if pictures else []
    return "\n".join(lines) + "\n"


def _about(summary: RunSummary) -> list[str]:
    software, trials = summary.machine.software, summary.procedure.repetitions
    steps = f"{summary.procedure.iterations} steps" + (f" in each of {trials} trials" if trials > 1 else "")
    machine = f"{summary.machine.host.processor}, {summary.machine.host.logical_cores} logical cores"
    return [
        f"Training steps of {inline(summary.name)}, {steps} a batch size, in one process; run {summary.run_id}.",
        f"{inline(machine)}; torch {inline(software.get('torch'))}, Python {inline(software.get('python'))}.",
        "Rates are all samples over all time. Phases are means of a pass of their own, which is cut into them.",
    ]


def _named(device: str, summary: RunSummary) -> str:
    placement = next(case.placement for case in summary.cases if str(case.placement) == device)
    info = summary.machine.device(placement.device, placement.index)
    return f"{device} ({inline(info.name)})" if info is not None else device


def _table(rows: Sequence[Row]) -> Iterator[str]:
    shown = [column for column in _COLUMNS if any(row.get(column) is not None for row in rows)]
    cells = [[_cell(row.get(column), _COLUMNS[column][1]) for column in shown] for row in rows]
    return table([_COLUMNS[column][0] for column in shown], cells)


def _cell(value: object, unit: str) -> str:
    if isinstance(value, str):
        return value.replace("_", " ")
    if isinstance(value, int):
        return str(value)
    return units.quantity(value if isinstance(value, float) else None, unit)


def _seen(cases: Sequence[CaseSummary], summary: RunSummary) -> Iterator[str]:
    """Say what limits on one device: over the batch sizes, and in the step of the fastest."""
    good = [case for case in cases if "throughput" in case.estimates]
    if not good:
        yield "No batch size was measured to the end."
    found: list[Advice] = []
    for case, curve in curves.curves(good, summary.machine):
        found += batch_curve.advise(curve, case.configuration, curves.ran_out(case, cases))
    if good:
        fastest = max(good, key=lambda case: case.estimates["throughput"].value)
        size = fastest.configuration["batch_size"]
        yield f"Highest throughput: {_rate(fastest)} at batch size {size}."
        if len(good) < 3:
            yield "Under three batch sizes there is no curve to read: measure more of them."
        yield ""
        yield from (line for advice in found for line in bullet(advice))
        steps = curves.read_phases(fastest, summary.machine)
        yield from (line for advice in steps for line in bullet(advice, f"at batch size {size}, "))
        if not found and not steps:
            yield "- Neither the curve nor the phases show anything that is worth a change."
    for case in cases:
        for message in {t.outcome.message for t in case.trials if t.outcome.status == Status.OUT_OF_MEMORY}:
            yield f"- batch size {case.configuration['batch_size']} ran out of memory: {inline(message)}"


def _rate(case: CaseSummary) -> str:
    return f"{units.quantity(case.estimates['throughput'].value, 'number')} samples/s"
