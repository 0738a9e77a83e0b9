"""Every figure of a run: system, devices, model, data; of each case throughput, inference, training, memory, energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.analyses import Analysis, AnalysisLine, analyses, reasons_left_out
from torchstone.analysis.advice.insights import performance_summary
from torchstone.analysis.roofline import UNKNOWN
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.figures import PHASE
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.facts import Facts, accuracies, accuracy_name
from torchstone.core.schema.metric import FIGURES, MetricGroup
from torchstone.core.schema.run import IMPORTED
from torchstone.core.schema.run_document import Extent
from torchstone.report.diagnosis_messages import text, texts
from torchstone.report.document import Column, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.documents.findings import labels
from torchstone.report.documents.run_answer import point_words, scalar_word

_Row = tuple[str, str, str]  # name, value, meaning
_EPOCH = "epoch_time_s"  # of a training what it takes, else a way to say how fast a pass over the data is


def report_section(run: RunSummary, reported: tuple[int, int] | None = None) -> Section:
    """Return the whole report, its blocks under the names that the seeds' reports have.

    `reported`: figures of the cases from this place up to that one; None: of all.
    """
    parts = [
        Section(title, told)
        for title, lines in (("SYSTEM", _system), ("DEVICES", _devices), ("MODEL", _models), ("DATA", _data))
        if (told := paragraphs(list(lines(run))))
    ]
    known, same = labels(run.cases), _same_settings(run.cases)
    if same:
        parts.append(Section("SETTINGS OF ALL CASES", (Text(_settings(same)),)))
    parts += [_case(case, known[case.case_id], same) for case in run.cases[slice(*(reported or (None,)))]]
    if peaks := paragraphs(list(_peaks(run))):
        parts.append(Section("PEAKS", peaks))
    if sweep := tuple(summary_parts(run)):
        parts.append(Section("PERFORMANCE SUMMARY", sweep))
    parts += analysis_parts(run)
    parts.append(Section("TOTAL RUNTIME", (Text(_runtime(run)),)))
    return Section(f"BENCHMARK REPORT: {run.name}", tuple(parts))


# ── what it ran on, and what ran ────────────────────────────────────────────────────────────────────────────


def _system(run: RunSummary) -> Iterator[str]:
    host = run.machine.host
    yield f"Platform: {host.platform}"
    cores = f", {host.physical_cores} cores ({host.logical_cores} logical)" if host.logical_cores is not None else ""
    yield f"Processor: {host.processor or units.MISSING}{cores}"
    yield f"Memory: {units.quantity(host.memory_bytes, 'bytes')}, governor {host.governor or units.MISSING}"
    if software := ", ".join(f"{name} {version}" for name, version in run.machine.software.items() if version):
        yield software
    if settings := ", ".join(f"{name}={value}" for name, value in run.machine.settings.items() if value is not None):
        yield settings


def _devices(run: RunSummary) -> Iterator[str]:
    for d in run.machine.devices:
        facts = [f"vendor {d.vendor}", f"memory {units.quantity(d.memory_bytes, 'bytes')}"]
        also = (("compute", d.compute_capability), ("driver", d.driver), ("runtime", d.runtime))
        facts += [f"{name} {value}" for name, value in also if value]
        yield f"{d.kind}:{d.index} {d.name}: {', '.join(facts)}"


def _models(run: RunSummary) -> Iterator[str]:
    seen = set()
    for case in run.cases:
        if case.workload.model in seen:
            continue
        seen.add(case.workload.model)
        count = _fact([case], "parameters")
        parameters = f"{count:,.0f} parameters" if isinstance(count, int | float) else "parameters not counted"
        fixed = ", ".join(f"{name} {value}" for name, value in case.workload.fixed.items())
        yield f"{case.workload.model}: {parameters}, item {case.workload.item}{', ' + fixed if fixed else ''}"


def _data(run: RunSummary) -> Iterator[str]:
    for data in dict.fromkeys(case.workload.data for case in run.cases):
        cases = [case for case in run.cases if case.workload.data == data]
        items = _fact(cases, "dataset_items")
        told = [f"{items:,} items" if isinstance(items, int) else "made as needed"]
        for fact, what in (("validation_items", "held out"), ("test_items", "to test on")):
            if isinstance(count := _fact(cases, fact), int):
                told.append(f"{count:,} {what}")
        classes = next((n for c in cases if (n := c.workload.fixed.get("data_classes")) is not None), None)
        classes = classes if classes is not None else _fact(cases, "data_classes")
        told += [f"{classes} classes"] if classes is not None else []
        lengths = {case.configuration.get("sequence_length") for case in cases} - {None}
        told += [f"sequence length {', '.join(sorted(map(str, lengths)))}"] if lengths else []
        yield f"{data}: {', '.join(told)}"


def _fact(cases: Sequence[CaseSummary], name: str) -> Scalar:
    return next((n for c in cases for t in c.trials if (n := getattr(t.facts, name)) is not None), None)


# ── the figures of a case ───────────────────────────────────────────────────────────────────────────────────


def _same_settings(cases: Sequence[CaseSummary]) -> Mapping[str, Scalar]:
    """Return the axes that have one value in all Cases of a run, of which there are several."""
    if len(cases) < 2:
        return {}
    items = [set(case.configuration.items()) for case in cases]
    same = set.intersection(*items)
    return {name: value for name, value in cases[0].configuration.items() if (name, value) in same}


def _settings(configuration: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={value}" for name, value in configuration.items())


def _case(case: CaseSummary, label: str, same: Mapping[str, Scalar]) -> Section:
    """Return the blocks of a Case; of one without a figure, how its trials ended.

    `same`: settings told before; of the others those that its `label` does not have are told.
    """
    own = {name: value for name, value in case.configuration.items() if name not in same}
    told = all(f"{name} {value}" in label for name, value in own.items())
    blocks = {_heading(group, case.workload.task): list(_block(group, case)) for group in MetricGroup}
    parts: list[Part] = [Section(title, (_table(rows),)) for title, rows in blocks.items() if rows]
    if not parts:
        ends = [f"{t.outcome.status}: {t.outcome.message or units.MISSING}" for t in case.trials]
        parts = [Section("TRIALS", paragraphs(ends or ["none was taken"]))]
    settings = () if told else (Text(_settings(own), Role.DETAIL),)
    return Section(f"{label} on {case.placement}: {case.verdict}", (*settings, *parts))


def _table(rows: Sequence[_Row]) -> Table:
    return Table(tuple(Column("", tuple(row[place] for row in rows), left=True) for place in range(3)))


def _heading(group: MetricGroup, task: Task) -> str:
    if group == MetricGroup.LATENCY:
        return {Task.GENERATE: "GENERATION", Task.CALL: "CALLS"}.get(task, "INFERENCE PERFORMANCE")
    return group.heading.upper()


def _block(group: MetricGroup, case: CaseSummary) -> Iterator[_Row]:
    if group == MetricGroup.TRAINING:
        yield from _reached(case)
    names = [name for name, metric in FIGURES.items() if metric.group == group and name != _EPOCH]
    if group == (MetricGroup.TRAINING if case.workload.task == Task.TRAIN else MetricGroup.THROUGHPUT):
        names.insert(0 if group == MetricGroup.TRAINING else len(names), _EPOCH)
    if group == MetricGroup.PHASES:  # of the user's own, too
        names += [name for name in case.estimates if name.startswith(PHASE) and name not in names]
    yield from _figures(case, names)
    if group == MetricGroup.ROOFLINE and case.bound is not None and case.bound.what != UNKNOWN:
        first, *others = (text(one) for one in case.bound.evidence) if case.bound.evidence else ("",)
        near = case.bound.is_near
        title = f"bounded by {case.bound.what}" if near else f"nearest limit: {case.bound.what}"
        share = case.bound.share if near else case.bound.near
        yield title, f"{units.quantity(share, 'ratio')} of a step", first
        yield from (("", "", line) for line in others)


def _figures(case: CaseSummary, names: Sequence[str]) -> Iterator[_Row]:
    for name in names:
        estimate = case.estimates.get(name)
        if estimate is not None:
            meaning = FIGURES[name].meaning if name in FIGURES else "mean time a step"
            doubt = "" if estimate.supported or not estimate.note else f"{estimate.note}; "
            yield name, _estimate(estimate), doubt + meaning


def _estimate(estimate: Estimate) -> str:
    text = units.quantity(estimate.value, estimate.unit, 4)
    if estimate.is_wide:
        ends = units.ends(estimate.lowest or 0.0, estimate.highest or 0.0, estimate.value, estimate.unit)
        text += f" (of trials {ends}: no interval)"
    elif estimate.low is not None and estimate.high is not None and estimate.high > estimate.low:
        text += f" {units.ends(estimate.low, estimate.high, estimate.value, estimate.unit)}"
    return text if estimate.supported else f"({text})"


def _reached(case: CaseSummary) -> Iterator[_Row]:
    """Yield how many epochs a training to its end had, and the accuracies that it reached."""
    last = next((t.facts for t in reversed(case.trials) if t.facts.epochs is not None or accuracies(t.facts)), Facts())
    if (epochs := last.epochs) is not None:
        best = last.best_epoch
        yield "epochs", f"{epochs} (best: {best})" if best else str(epochs), ""
    for name, share in accuracies(last).items():
        yield name, f"{share:.2%}", f"{accuracy_name(name).lower()} after the last epoch"


# ── the run as a whole ──────────────────────────────────────────────────────────────────────────────────────


def _peaks(run: RunSummary) -> Iterator[str]:
    """Yield where the peaks are from, and why others are not known: once, whatever the number of Cases."""
    tops = [case.ceilings for case in run.cases if case.ceilings is not None]
    yield from dict.fromkeys(f"measured {top.measured_utc} ({top.precision})" for top in tops if top.measured_utc)
    yield from dict.fromkeys(f"datasheet: {top.datasheet_source}" for top in tops if top.datasheet_source)
    yield from dict.fromkeys(text(one) for top in tops for one in top.missing)


def _runtime(run: RunSummary) -> str:
    """Return how long it took; a dash where another tool measured it and does not tell."""
    total_s, trials = run.total_runtime_s, sum(len(case.trials) for case in run.cases)
    if total_s is None:
        return f"{units.MISSING} (its file has none)"
    told = f"{total_s:.2f} s ({total_s / 60:.2f} min)"
    if run.procedure.isolation == IMPORTED:
        return told
    return f"{told} in {trials} trial{'s' * (trials != 1)}"


# ── along one axis at a time ────────────────────────────────────────────────────────────────────────────────


_NAMES = {"training_time": "time of a step", "throughput": "throughput", "loss_convergence": "loss convergence, a step"}


def analysis_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section for every analysis that the run has two Cases for; what is left out says why."""
    gone = reasons_left_out(run)
    for one in analyses(run):
        about = Text(", ".join(filter(None, (f"{one.task} {one.model} on {one.device}", point_words(one.where)))))
        says = Text(texts(one.says, "; "), Role.DETAIL)
        yield Section(one.title.upper(), (about, Table(tuple(_columns(one))), says, *_gone(gone.pop(one.title, None))))
    yield from (Section(title.upper(), tuple(_gone(why))) for title, why in gone.items())


def _gone(why: Statement | None) -> Iterator[Part]:
    if why is not None:
        yield Text(f"left out: {text(why)}")


def _columns(one: Analysis) -> list[Column]:
    rows = one.lines
    of_what = one.by == "bottleneck"
    found = [Column(one.by.replace("_", " "), tuple(scalar_word(row.value) for row in rows), left=of_what)]
    if of_what:
        found.append(Column("bounded by", tuple(row.bottleneck or "" for row in rows), left=True))
        found.append(Column("of the step", tuple(units.quantity(row.share, "ratio") for row in rows)))
        return found
    if one.by == "model":
        found.append(Column("parameters", tuple(f"{row.parameters:,.0f}" if row.parameters else "" for row in rows), 1))
    found.append(Column("items/s", tuple(units.significant(row.throughput or 0.0, 4) for row in rows)))
    found.append(Column("time an item", tuple(units.quantity(row.time_per_item_s, "s") for row in rows), 1))
    speeds = (units.MISSING if _is_wide(row) else _times(row.throughput_ratio) for row in rows)
    found.append(Column("speed", tuple(speeds)))
    found.append(Column("[ ]", tuple(_interval(row, first=row is rows[0]) for row in rows), 3, of=len(found) - 1))
    if any(row.efficiency is not None for row in rows):
        title = "FLOP/s" if one.by == "model" else "scaling efficiency"
        found.append(Column(title, tuple(units.quantity(row.efficiency, "ratio") for row in rows), 2))
    found.append(Column("memory", tuple(units.quantity(row.memory_bytes, "bytes") for row in rows), 1))
    found.append(Column("memory times", tuple(_times(row.memory_ratio) for row in rows), 2))
    return found


def _times(ratio: float | None) -> str:
    return f"{ratio:.3g}×" if ratio is not None else units.MISSING


def _is_wide(row: AnalysisLine) -> bool:
    return units.is_wide(row.throughput_ratio or 0.0, row.ratio_low, row.ratio_high)


def _interval(row: AnalysisLine, *, first: bool) -> str:
    if first or row.ratio_low is None or row.ratio_high is None:
        return ""
    return units.MISSING if _is_wide(row) else f"[{row.ratio_low:.3g}, {row.ratio_high:.3g}]"


# ── a sweep of trainings ────────────────────────────────────────────────────────────────────────────────────


def summary_parts(run: RunSummary) -> Iterator[Part]:
    """Yield, of each model, data and device with two trainings or more, a table of its figures, and means by axis."""
    for one in performance_summary(run):
        if one.cases < 2:
            continue
        of_what = f"{one.model} on {one.device}, data {one.data}, {one.cases} cases"
        yield Text(f"{of_what} (means over cases, whatever they are)")
        fields = {name: extent for field, name in _NAMES.items() if (extent := getattr(one, field)) is not None}
        if fields:
            yield Table(tuple(_extent_columns(fields)))
        for name, extent in fields.items():
            yield from (Text(f"{name}, {line}", Role.DETAIL) for line in _by(extent))


def _extent_columns(fields: Mapping[str, Extent]) -> Iterator[Column]:
    yield Column("", tuple(fields), left=True)
    for title in ("min", "max", "mean"):
        yield Column(title, tuple(units.quantity(getattr(extent, title), extent.unit) for extent in fields.values()))


def _by(extent: Extent) -> Iterator[str]:
    for field, means in msgspec.structs.asdict(extent).items():
        if isinstance(means, Mapping) and len(means) > 1:
            told = ", ".join(f"{value} {units.quantity(mean, extent.unit)}" for value, mean in means.items())
            yield f"{field.replace('_', ' ')}: {told}"
