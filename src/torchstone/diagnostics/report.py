"""The written report of a diagnosis, as Markdown: what was measured, what limits, what to change, what to doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone import units
from torchstone.advice import batch_curve, reading
from torchstone.advice.advice import Advice
from torchstone.diagnostics.sweep import Swept
from torchstone.diagnostics.table import DEVICE_MEMORY, HOST_MEMORY, PHASE_COLUMNS, SKIPPED, Row, rows_of
from torchstone.summary import CaseSummary, RunSummary
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.trial import Status

_COLUMNS = {
    "batch_size": ("batch size", ""), "status": ("ended", ""), "throughput": ("samples/s", "number"),
    "step_s": ("step", "s"), **{column: (column.removesuffix("_s"), "s") for column in PHASE_COLUMNS},
    HOST_MEMORY: ("host memory", "bytes"), DEVICE_MEMORY: ("device memory", "bytes"), "verdict": ("verdict", ""),
}  # fmt: skip
_WORTH_IT = 1.5  # times the CPU's throughput: below, an accelerator buys little


def report_of(swept: Swept, pictures: Sequence[str]) -> str:
    """Return the report. `pictures`: file names of those that were drawn beside it."""
    summary, rows = swept.summary, rows_of(swept)
    lines = [f"# Performance report: {_plain(summary.name)}", "", *_about(summary)]
    devices = list(dict.fromkeys(str(case.placement) for case in summary.cases))
    for device in devices:
        own = [case for case in summary.cases if str(case.placement) == device]
        lines += ["", f"## On {_named(device, summary)}", "", *_table([row for row in rows if row["device"] == device])]
        lines += ["", *_seen(own, summary)]
    lines += _across(summary.cases, devices)
    lines += _doubts(summary)
    skipped = [f"- {_plain(row['device'])}: {_plain(row['message'])}" for row in rows if row["status"] == SKIPPED]
    lines += ["", "## Skipped", "", *skipped] if skipped else []
    lines += ["", "## Pictures", "", *(f"![{name}]({name})" for name in pictures)] if pictures else []
    return "\n".join(lines) + "\n"


def _about(summary: RunSummary) -> list[str]:
    software, trials = summary.machine.software, summary.procedure.trials
    steps = f"{summary.procedure.iterations} steps" + (f" in each of {trials} trials" if trials > 1 else "")
    machine = f"{summary.machine.host.processor}, {summary.machine.host.logical_cores} logical cores"
    return [
        f"Training steps of {_plain(summary.name)}, {steps} a batch size, in one process; run {summary.run_id}.",
        f"{_plain(machine)}; torch {_plain(software.get('torch'))}, Python {_plain(software.get('python'))}.",
        "Rates are all samples over all time. Phases are means of a pass of their own, which is cut into them.",
    ]


def _named(device: str, summary: RunSummary) -> str:
    placement = next(case.placement for case in summary.cases if str(case.placement) == device)
    info = summary.machine.device(placement.device, placement.index)
    return f"{device} ({_plain(info.name)})" if info is not None else device


def _table(rows: Sequence[Row]) -> Iterator[str]:
    shown = [column for column in _COLUMNS if any(row.get(column) is not None for row in rows)]
    yield f"| {' | '.join(_COLUMNS[column][0] for column in shown)} |"
    yield f"|{'---:|' * len(shown)}"
    for row in rows:
        yield f"| {' | '.join(_cell(row.get(column), _COLUMNS[column][1]) for column in shown)} |"


def _cell(value: object, unit: str) -> str:
    if isinstance(value, str):
        return _plain(value.replace("_", " "))
    if isinstance(value, int):
        return str(value)
    return units.quantity(value if isinstance(value, float) else None, unit)


def _seen(cases: Sequence[CaseSummary], summary: RunSummary) -> Iterator[str]:
    """Say what limits on one device: over the batch sizes, and in the step of the fastest."""
    good = [case for case in cases if "throughput" in case.estimates]
    if not good:
        yield "No batch size was measured to the end."
    found: list[Advice] = []
    for case, curve in reading.curves(good, summary.machine):
        found += batch_curve.advise(curve, case.configuration)
    if good:
        fastest = max(good, key=lambda case: case.estimates["throughput"].value)
        size = fastest.configuration["batch_size"]
        yield f"Highest throughput: {_rate(fastest)} at batch size {size}."
        if len(good) < 3:
            yield "Under three batch sizes there is no curve to read: measure more of them."
        yield ""
        yield from (line for advice in found for line in _bullet(advice))
        steps = reading.read_phases(fastest, summary.machine)
        yield from (line for advice in steps for line in _bullet(advice, f"at batch size {size}, "))
        if not found and not steps:
            yield "- Neither the curve nor the phases show anything that is worth a change."
    for case in cases:
        for message in {t.outcome.message for t in case.trials if t.outcome.status == Status.OUT_OF_MEMORY}:
            yield f"- batch size {case.configuration['batch_size']} ran out of memory: {_plain(message)}"


def _bullet(advice: Advice, at: str = "") -> Iterator[str]:
    yield f"- {_plain(at + advice.seen)}."
    if advice.causes:
        yield f"  - Usual causes: {_plain(', '.join(advice.causes))}."
    if advice.remedies:
        yield f"  - Try: {_plain('; '.join(advice.remedies))}."


def _rate(case: CaseSummary) -> str:
    return f"{units.quantity(case.estimates['throughput'].value, 'number')} samples/s"


def _across(cases: Sequence[CaseSummary], devices: Sequence[str]) -> Iterator[str]:
    """Compare accelerators with the CPU at equal batch sizes."""
    rates: dict[str, Mapping[int, float]] = {
        device: {
            int(case.configuration["batch_size"] or 0): case.estimates["throughput"].value
            for case in cases if str(case.placement) == device and "throughput" in case.estimates
        }
        for device in devices
    }  # fmt: skip
    others = [device for device in devices if device != "cpu"]
    if "cpu" not in rates or not others:
        return
    yield from ("", "## CPU and accelerator", "")
    for device in others:
        gains = {size: rates[device][size] / rate for size, rate in rates["cpu"].items() if size in rates[device]}
        if not gains:
            yield f"- {device} and the CPU have no batch size in common that both measured."
            continue
        yield f"- {device} is {', '.join(f'{gain:.3g} times as fast at {size}' for size, gain in gains.items())}."
        if max(gains.values()) < _WORTH_IT:
            yield "  - Little for an accelerator: model or batches are small for it, or it waits: see its phases."
            yield "  - Try: a larger batch; pin_memory and more loader workers where transfer or data is long; the CPU."


def _doubts(summary: RunSummary) -> Iterator[str]:
    """Say once what each check saw, and of how many cases."""
    found: dict[str, list[Finding]] = {}
    for finding in (*summary.findings, *(finding for case in summary.cases for finding in case.findings)):
        if finding.severity != Severity.INFO:
            found.setdefault(finding.check, []).append(finding)
    if found:
        yield from ("", "## What to doubt", "")
    for seen in found.values():
        more = f" (and in {len(seen) - 1} more cases)" if len(seen) > 1 else ""
        yield f"- {_plain(seen[0].message)}{more}. {_plain(seen[0].advice)}."


def _plain(value: object) -> str:
    """Return text that cannot be taken for Markdown of ours: one line, no pipes, no tags."""
    text = " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;")
