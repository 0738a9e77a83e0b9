"""A run as a Document: its answer, what stands against believing it, its tables; folded, everything else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.advice.choices import choice_of, choose
from torchstone.analysis.advice.curves import (
    BatchCurve,
    advise,
    curve_of,
    curves,
    ran_out,
    read_memory,
    read_phases,
    read_single_items,
    speed_up,
)
from torchstone.analysis.advice.devices import contrasts_with_cpu
from torchstone.analysis.advice.grouping import groups, on_devices_here, over_devices, varying_axes
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import recorded_step
from torchstone.analysis.advice.trainings import METRICS, Curves, compared, compared_cases
from torchstone.analysis.scaling import SIZES, Scaling, scaling, scaling_rows
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts.vega_lite import Panel, Picture
from torchstone.core.messages import filled
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Task, model_name
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.facts import Facts, SettingFact
from torchstone.core.schema.procedure import DEVICE_SETTINGS, SEARCH, Procedure
from torchstone.core.schema.ranks import AXES_OF_RANKS, BACKEND, STRATEGY, items_together, nodes
from torchstone.core.schema.run import IMPORTED, Run
from torchstone.core.schema.training import Training, TrainingMetrics
from torchstone.core.schema.trial import Status, replicates
from torchstone.report.charts import courses, settings
from torchstone.report.charts.batch_sizes import LATENCY, THROUGHPUT, batch_size_charts, phases_chart
from torchstone.report.charts.cases import chosen_cases, device_names
from torchstone.report.diagnosis_messages import advice_text, seen_text, text
from torchstone.report.document import Chart, Column, Document, Fields, Part, Role, Section, Table, Text
from torchstone.report.documents.ab import ab_parts, ab_rest
from torchstone.report.documents.case_table import case_parts, choices_of_groups, legend
from torchstone.report.documents.diagnosis import diagnosis_parts, diagnosis_rest
from torchstone.report.documents.findings import finding_parts
from torchstone.report.documents.full_report import report_section
from torchstone.report.documents.load_results import goodput_parts
from torchstone.report.documents.run_answer import answer_parts, doubt, point_words
from torchstone.report.documents.training import convergence_parts, training_parts
from torchstone.report.documents.tune import tune_choices, tune_parts
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import RecordPart

if TYPE_CHECKING:
    from torchstone.workflows.run.planned_run import Results


def run_document(
    run: RunSummary,
    *,
    every: bool = False,
    pictures: Sequence[Part] = (),
    reported: tuple[int, int] | None = None,
    curves: Curves | None = None,
) -> Document:
    """Return what is told of a stored run. `every`: each finding, each note, and every figure of every case.

    `pictures`: what stands below the tables and what to doubt (documents/run.py). `reported`: every figure of
    the cases from this place up to that one only. `curves`: the losses, where the record has been read already.
    """
    shown = without_probes(run)
    report = (msgspec.structs.replace(report_section(run, reported), folded=True),) if every else ()
    rest = run_parts(shown, every=every, pictures=pictures, curves=curves)
    return Document(run.name, (*_first(run, shown), *rest, *report))


def measured_document(results: Results, page: Path | None = None) -> Document:
    """Return what is told of a run that has just ended, and where its files are. `page`: a report that was written."""
    run = results.summary
    shown = without_probes(run)
    rest = (("record", run.record), ("document", str(results.document)), ("table", str(results.table)))
    files = (("report", str(page)), *rest) if page is not None else rest
    return Document(run.name, (*_first(run, shown), *run_parts(shown, files=files)))


def _first(run: RunSummary, shown: RunSummary) -> Iterable[Part]:
    """Return the answer of a run. Reads the record of a live comparison, whose sides' figures are those of pairs."""
    match run.answer:
        case TuneResult():
            return tune_parts(run, run.answer)
        case AbResult():
            return ab_parts(run.answer, read_run(Path(run.record)).trials, run.cases)
        case Diagnosis():
            return diagnosis_parts(run.answer, doubt=doubt(run.cases))
        case Training():
            return training_parts(run, run.answer)
    return goodput_parts(run) if run.command[:1] == (SEARCH,) else answer_parts(shown)


def run_parts(
    run: RunSummary,
    *,
    every: bool = False,
    pictures: Sequence[Part] = (),
    curves: Curves | None = None,
    files: Sequence[tuple[str, str]] = (),
) -> Iterator[Part]:
    """Yield what stands below the answer of a run: what to doubt, and its tables; all else is folded.

    `every`: each finding and each note; `files`: those of a run that has just ended, by what they are.
    """
    yield from finding_parts(run)
    if (more := longer_time_command(run)) is not None:
        yield Text(more)
    if not isinstance(run.answer, AbResult | Training | Diagnosis):  # which have told their figures
        yield from (sections := tuple(case_parts(run)))
        if run.answer is None:
            yield from device_parts(run)
        yield from legend(sections)
        yield Text(_measured_how(run))
    yield from scaling_parts(run)
    yield from pictures
    if not isinstance(run.answer, AbResult):
        yield from convergence_parts(run, every=every, curves=curves)
    if rest := tuple(_rest(run, every=every, curves=curves, files=files)):
        yield Section("everything else", rest, folded=True, how=f"torchstone show {run.run_id} --full")


def _is_attached(run: RunSummary) -> bool:
    """Say whether a program was looked at from outside: there are no trials."""
    return isinstance(run.answer, Diagnosis) and run.answer.attached is not None


def _rest(run: RunSummary, *, every: bool, curves: Curves | None, files: Sequence[tuple[str, str]]) -> Iterator[Part]:
    yield from map(Text, _head(run))
    if isinstance(run.answer, AbResult):
        yield from ab_rest(run.answer, read_run(Path(run.record)).trials, run.cases)
        yield from convergence_parts(run, every=every, curves=curves)
    if isinstance(run.answer, Diagnosis):
        yield from diagnosis_rest(run.answer)
    if isinstance(run.answer, AbResult | Training | Diagnosis) and not _is_attached(run):
        yield from (sections := tuple(case_parts(run)))
        yield from legend(sections)
        yield Text(_measured_how(run))
    yield from choices_of_groups(run)
    if every and (found := tuple(finding_parts(run, every=True))):
        yield Section("each finding", found)
    if isinstance(run.answer, TuneResult):
        yield from tune_choices(run, run.answer)
    if run.answer is None:
        yield from note_parts(run, every=every)
    yield from setting_parts(run)
    if files:
        yield Fields(tuple(files))


def without_probes(run: RunSummary) -> RunSummary:
    """Return a run without the Cases that a search only probed, where others were measured: probes are no results."""
    taken = [trial for case in run.cases for trial in case.trials]
    if len(replicates(taken)) in (0, len(taken)):
        return run
    return msgspec.structs.replace(run, cases=tuple(case for case in run.cases if replicates(case.trials)))


def _measured_how(run: RunSummary) -> str:
    """Return on which machine a run was measured, and over how many trials."""
    counted = _counted(run)
    if run.procedure.isolation == IMPORTED:
        tools = sorted({str(t.facts.imported_from) for case in run.cases for t in case.trials})
        how = f"{counted}, measured by {', '.join(tools)}; torchstone check {run.run_id} looks for its mistakes"
    else:
        how = f"{counted}, ± half the 95 % interval"
    return f"{_machine(run)}: {how}" + (f", {run.status}" if run.status != "done" else "")


def _machine(run: RunSummary) -> str:
    machine = run.machine
    used = {str(case.placement) for case in run.cases}
    known = [d.name for d in machine.devices if str(Placement(d.kind, d.index)) in used]
    known += [f"torch {version}"] if (version := machine.software.get("torch")) is not None else []
    return ", ".join((machine.host.hostname, *known))


def _head(run: RunSummary) -> Iterator[str]:
    """Yield what run it is, and how it was measured."""
    how = run.procedure
    yield f"{run.name}: run {run.run_id}, {run.started_utc}, {run.status}"
    if how.isolation == IMPORTED:
        return
    loads = {case.workload.task for case in run.cases} == {Task.LOADGEN}
    loop = any(case.workload.is_loop for case in run.cases)
    long = "all steps of a loop" if loop else _length(how, run_of_loads=loads)
    yield f"{_counted(run)}, {long}, {how.isolation}, {how.heap} heap"


def _counted(run: RunSummary) -> str:
    """Return how many trials of a case there are: as asked for, or as it came."""
    how = run.procedure
    if not how.in_rounds and not isinstance(run.answer, Diagnosis):  # whose what-ifs have more trials than its base
        return f"{how.repetitions} trial{'s' * (how.repetitions > 1)} a case"
    cases = on_devices_here(run)
    counts = [sum(t.outcome.status != Status.INTERRUPTED for t in case.trials) for case in cases] or [0]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least} to {most}'} trial{'s' * (most != 1)} a case"


def _length(how: Procedure, *, run_of_loads: bool) -> str:
    if how.epochs is not None:
        return f"at most {how.epochs} epoch{'s' * (how.epochs > 1)}"
    if how.iterations is not None:
        return f"{how.iterations} steps"
    if how.in_rounds and run_of_loads:
        return f"loads of at least {how.budget_s:g} s"
    if how.in_rounds:
        return f"short windows, until ±{100 * how.aim:g} %"
    return f"at most {how.budget_s:g} s a window{f', until ±{100 * how.target:g} %' if how.target is not None else ''}"


# ── how long it would take ──────────────────────────────────────────────────────────────────────────────────


_BESIDE = 1.3  # times the trials' own time: templates, imports, what is between trials
_MOST_S = 3600.0  # longer is no advice


def longer_time_command(run: RunSummary) -> str | None:
    """Return what to type where the time was over before the intervals were narrow; None where they are.

    The half-width of an interval falls with the root of the trials. Only of a run whose number of trials was open.
    """
    aim = run.procedure.aim
    spent_s = run.total_runtime_s
    if spent_s is None or not run.procedure.in_rounds or run.answer is not None:
        return None
    rates = [case for case in run.cases if case.workload.task != Task.LOADGEN]  # that of a load was asked for
    more = [(case, needed) for case in rates if (needed := _more_s(case, aim)) > 0.0]
    if not more or not any(case.verdict == Verdict.VALID for case, _ in more):  # more of the same helps no doubt
        return None
    whole_s = _BESIDE * (spent_s + sum(needed for _, needed in more))
    what = "a throughput is" if len(more) == 1 else f"{len(more)} throughputs are"
    known = f"{what} not known to ±{100 * aim:g} %"
    if whole_s > _MOST_S:
        return f"{known}, and on this machine that would take more than an hour: `torchstone machine check` says why"
    return f"{known}: --within {_rounded(whole_s)} would be about enough"


def _more_s(case: CaseSummary, aim: float) -> float:
    """Return the seconds that further trials of a case would take."""
    rate = case.estimates.get("throughput")
    half = units.half_of_value(rate.value, rate.low, rate.high) if rate is not None else None
    spent_s = [trial.duration_s or 0.0 for trial in case.trials if trial.outcome.status == Status.OK]
    if half is None or half <= aim or not spent_s:
        return 0.0
    return sum(spent_s) * ((half / aim) ** 2 - 1.0)


def _rounded(seconds: float) -> str:
    return f"{math.ceil(seconds / 60.0)}m"


# ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────


_MUCH_LONGER = 1.5  # a mean step ÷ the median one: skewed steps of a quiet machine stay below
_PHASES = 2  # of a step that are told without being asked, the largest first


def note_parts(run: RunSummary, *, every: bool = False) -> Iterator[Text]:
    """Yield a note on each thing seen in a workload; with `every` on all Cases, not the recommended one alone."""
    found = [(group, list(_of_group(run, group, every=every))) for group in groups(run.cases)]
    several = sum(bool(lines) for _, lines in found) > 1
    for group, lines in found:
        name = f"{group[0].workload.task} {model_name(group[0].workload.model)}{_place(run, group)}: "
        yield from (Text(f"{name if several else ''}{line}", Role.NOTE) for line in lines)


def device_parts(run: RunSummary) -> Iterator[Text]:
    """Yield how each accelerator stands beside the CPU."""
    yield from (Text(line, Role.NOTE) for line in _over_devices(run))


def _place(run: RunSummary, cases: Sequence[CaseSummary]) -> str:
    """Return on which device these Cases ran, where the run has several."""
    return f" on {cases[0].placement}" if len({str(case.placement) for case in run.cases}) > 1 else ""


def _over_devices(run: RunSummary) -> Iterator[str]:
    """Yield how each accelerator stands beside the CPU, where a workload was measured on both."""
    for cases in over_devices([case for case in run.cases if case.verdict != Verdict.INVALID]):
        first = cases[0].workload
        for one in contrasts_with_cpu(cases):
            yield f"{first.task} {model_name(first.model)}: {advice_text(one.advice)}"


def _of_group(run: RunSummary, cases: Sequence[CaseSummary], *, every: bool) -> Iterator[str]:
    valid = [c for c in cases if c.verdict != Verdict.INVALID]
    varying = varying_axes(cases)
    yield from _long_steps(valid, varying)
    sure = [c for c in valid if c.verdict == Verdict.VALID]
    chosen = choose([choice_of(c, run.machine, varying) for c in sure], InRounds(sure))
    if chosen is not None:
        best = next(c for c in sure if c.case_id == chosen.recommended.case_id)
        yield from _of_best(run, best, sure, varying, every=every)
        return
    for case in valid:
        name = f"{point_words(_values(case, varying))}: " if len(valid) > 1 else ""
        single = read_single_items(case, run)  # with larger batches, the phases have other shares
        read = (*single, *_phases(case, run, 1 if single else _PHASES), *read_memory(case, run))
        yield from (f"{name}{advice_text(one)}" for one in read)


def _long_steps(cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[str]:
    """Yield for which Cases throughput does not follow from the median step: the one with the longest mean by that."""
    found = [
        (whole.value / middle.value, case, middle.value, whole.value)
        for case in cases
        if (middle := case.estimates.get("step_time_p50"))
        and (whole := case.estimates.get("step_time_mean"))
        and whole.value > _MUCH_LONGER * middle.value > 0.0
    ]
    if not found:
        return
    _, case, median_s, mean_s = max(found, key=lambda one: one[0])
    where = f"{point_words(_values(case, varying))}: " if len(cases) > 1 and varying else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    median, mean = (units.quantity(seconds, "s") for seconds in (median_s, mean_s))
    yield (
        f"{where}half of the steps take {median} or less, the mean is {mean}{more}: some are much longer, and "
        "throughput counts them all"
    )


def _phases(case: CaseSummary, run: RunSummary, most: int) -> list[Advice]:
    """Return what at most so many phases of a step say; all, where a device is not filled: its causes are told."""
    told = read_phases(case, run)
    return told if recorded_step(run, case).circumstances.idles else told[:most]


def _of_best(
    run: RunSummary, best: CaseSummary, cases: Sequence[CaseSummary], varying: Sequence[str], *, every: bool
) -> Iterator[str]:
    """Yield what curve and phases of the recommended Case say; with `every` those of all, in fewer words."""
    curve = curve_of(best, cases, run.machine)
    if curve is not None:
        yield _times(curve, best, varying)
        yield from map(advice_text, advise(curve, best.configuration, ran_out(best, run.cases)))
    yield from map(advice_text, _phases(best, run, _PHASES))
    if not every:
        return
    for case, other in curves(cases, run.machine):
        if curve is None or other.points != curve.points:
            yield _times(other, case, varying)
            told = advise(other, case.configuration, ran_out(case, run.cases))
            yield from map(seen_text, told)
    for case in cases:
        if case.case_id != best.case_id and (found := read_phases(case, run)):
            yield f"{point_words(_values(case, varying))}: {'; '.join(map(seen_text, found))}"


def _times(curve: BatchCurve, case: CaseSummary, varying: Sequence[str]) -> str:
    """Say how many times faster each batch size is than the smallest."""
    others = _values(case, [axis for axis in varying if axis != "batch_size"])
    where = f"with {point_words(others)}, " if others else ""
    return f"{where}{text(speed_up(curve, case.workload.item))}"


def _values(case: CaseSummary, axes: Sequence[str]) -> Mapping[str, Scalar]:
    return {axis: case.configuration.get(axis) for axis in axes}


# ── settings that no axis decided ───────────────────────────────────────────────────────────────────────────


_POLICY = {DEVICE_SETTINGS: "tuned for the device; --settings torch leaves them to PyTorch"}
# Why a setting is so (core/schema/facts.py: SettingFact).
_WHY = {
    "requested": "as requested",
    "default": "PyTorch's default",
    "same": "PyTorch's default, {why}",
    "fewer": "{why}; PyTorch's default is {default}",
    "device": "{why}",
    "refused": "{why}",
    "no_convolutions": "the model has no convolutions",
    "library": "{library} {options}",
    "own_layout": "the runtime chooses its own layout",
    "contiguous": "fully_shard takes contiguous weights only",
    "own_optimizer": "the model returns its own optimizer",
    "fused_kernels": "torch has fused optimizer kernels for this device",
    "order": "PyTorch's order among {kernels}",
}
# How a precision is carried out (plugins/tasks/_settings.py).
_IN_EFFECT = {
    "autocast": "autocast; weights, and what the optimizer keeps, stay as the model has them, usually fp32",
    "tf32_off": "TF32 is off in products and in cuDNN's convolutions (torch's default has it on in the latter)",
    "tf32_on": "products and cuDNN's convolutions take fp32 numbers as TF32",
}
_TORCHS = "PyTorch's own; --settings device tunes them for the device"


def setting_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section with them, where the record tells them; one of another tool does not."""
    if rows := tuple(_rows(run)):
        yield Section(f"settings: {_POLICY.get(run.procedure.settings or '', _TORCHS)}", (Fields(rows),))


def _rows(run: RunSummary) -> Iterator[tuple[str, str]]:
    told = [found for case in run.cases if (found := _setting_words(case))]
    for name in dict.fromkeys(name for found in told for name in found):
        ways = Counter(found[name] for found in told if name in found)
        for way, cases in ways.items():
            yield name, way if len(ways) == 1 else f"{way} ({cases} of {len(told)} cases)"
    if told:
        yield from _precisions(run)


def _setting_words(case: CaseSummary) -> dict[str, str]:
    """Return setting → "value: why" of the first trial that tells it: all of a Case are set alike."""
    facts = next((t.facts for t in case.trials if t.facts.settings), Facts())
    told = {name: _text(setting) for name, setting in facts.settings.items()}
    ran = next((t.facts.attention_kernel for t in case.trials if t.facts.attention_kernel is not None), None)
    if ran is not None and "sdpa" in told:
        told["sdpa"] += f"; {ran} ran"
    return told


def _text(setting: SettingFact) -> str:
    return f"{setting.value}: {filled(_WHY.get(setting.reason, setting.reason), setting.values)}"


def _precisions(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield how precisions are carried out, and what the devices take natively: what `precision=auto` chooses from."""
    told = [
        f"{case.configuration.get('precision')}: {_IN_EFFECT.get(how, how)}"
        for case in run.cases
        for t in case.trials
        if (how := t.facts.precision_in_effect) is not None
    ]
    yield from (("precision", text) for text in dict.fromkeys(told))
    for place in dict.fromkeys(case.placement for case in run.cases):
        device = run.machine.device(place.device, place.index)
        there = [c.configuration for c in run.cases if c.placement == place and "precision" in c.configuration]
        used = dict.fromkeys(str(configuration["precision"]) for configuration in there)
        if device is not None and device.precisions and used:
            yield "precision", f"{', '.join(used)}; native on {device.name}: {', '.join(device.precisions)}"


# ── several ranks ───────────────────────────────────────────────────────────────────────────────────────────


_ON_ONE_CPU = (
    "Ranks on one CPU share its cores: where one rank computes on all of them, sharing them brings 1 / ranks. "
    "threads=1 compares cores."
)


def scaling_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section for each workload and device with ranks."""
    for group in groups(run.cases):
        points = list(scaling_rows(scaling(group)))
        if points:
            first = points[0].case
            title = f"Ranks: {first.workload.task} {first.workload.model} on {first.placement}"
            yield Section(title, tuple(_parts(points)))


def _parts(points: Sequence[Scaling]) -> Iterator[Part]:
    if (says := _best(points)) is not None:
        yield Text(says)
    yield Table(tuple(_columns(points)))
    facts = [line for point in points if (line := _of_each_rank(point.case)) and point.ranks > 1]
    yield from (Text(line, Role.DETAIL) for line in facts)
    if points[0].case.placement.device == "cpu" and any(p.weak is not None or p.strong is not None for p in points):
        yield Text(_ON_ONE_CPU, Role.DETAIL)


def _best(points: Sequence[Scaling]) -> str | None:
    """Return what the largest number of ranks brings at best, with its interval; None where that is not certain."""
    told = [
        (point, kind, found)
        for point in points
        for kind, found in (("weak", point.weak), ("strong", point.strong))
        if found is not None and not found.is_wide
    ]
    if not told:
        return None
    top, kind, found = max(told, key=lambda one: (one[0].ranks, one[1] == "weak", one[2].value))
    return f"{top.ranks} ranks ({top.case.configuration.get(STRATEGY)}): {kind} scaling efficiency {_share(found)}."


def _columns(points: Sequence[Scaling]) -> Iterator[Column]:
    cases = [point.case for point in points]
    item = cases[0].workload.item
    yield Column("ranks", tuple(str(point.ranks) for point in points))
    if any(nodes(case.configuration) > 1 for case in cases):
        yield Column("nodes", tuple(str(nodes(case.configuration)) for case in cases), 1)
    yield Column("strategy", tuple(str(case.configuration.get(STRATEGY, "none")) for case in cases), left=True)
    backends = tuple(str(case.configuration.get(BACKEND, "")).replace("auto", "") for case in cases)
    yield Column("back end", backends, 5, left=True)
    yield Column("batch of a rank", tuple(str(case.configuration.get("batch_size")) for case in cases), 1)
    for axis in (axis for axis in varying_axes(cases) if axis not in (*AXES_OF_RANKS, *SIZES)):
        yield Column(axis.replace("_", " "), tuple(str(case.configuration.get(axis)) for case in cases), 1)
    yield Column("effective batch", tuple(str(items_together(case.configuration)) for case in cases), 3)
    yield _column(f"{item}s/s in all", cases, "throughput", lambda e: units.significant(e.value, 4))
    yield Column("weak efficiency", tuple(_share(point.weak) for point in points), 1)
    if any(point.strong is not None for point in points):
        yield Column("strong efficiency", tuple(_share(point.strong) for point in points), 1)
    yield _column("communication", cases, "communication_time_s", _time, 2)
    yield _column("exposed", cases, "exposed_communication_s", _time, 2)
    yield _column("overlap", cases, "communication_overlap", lambda e: units.quantity(e.value, "ratio"), 3)
    yield _column("slowest rank", cases, "slowest_rank_excess", lambda e: f"+{units.percent(e.value)}", 4)


def _column(
    title: str, cases: Sequence[CaseSummary], figure: str, shown: Callable[[Estimate], str], rank: int = 0
) -> Column:
    found = (case.estimates.get(figure) for case in cases)
    return Column(title, tuple(units.MISSING if e is None else shown(e) for e in found), rank)


def _time(found: Estimate) -> str:
    return units.quantity(found.value, "s")


def _share(found: Estimate | None) -> str:
    """Return an efficiency with its interval; a dash where there is none, or where it is too wide to say anything."""
    if found is None or found.is_wide:
        return units.MISSING
    if found.low is None or found.high is None:
        return units.percent(found.value)
    return f"{units.percent(found.value)} [{units.percent(found.low)}, {units.percent(found.high)}]"


def _of_each_rank(case: CaseSummary) -> str | None:
    """Return what the ranks of a Case's first successful trial had and did."""
    trial = next((t for t in case.trials if t.outcome.status == Status.OK and t.facts.items_per_s_by_rank), None)
    if trial is None:
        return None
    facts, settings = trial.facts, case.configuration
    places = f"; nodes {_by_rank(facts.node_by_rank)}" if facts.node_by_rank else ""
    rates, threads, cores = map(_by_rank, (facts.items_per_s_by_rank, facts.threads_by_rank, facts.cores_by_rank))
    resharded = ""
    if facts.reshard_after_forward:
        root, *units = facts.reshard_after_forward
        resharded = f"; weights given back after the forward pass: root: {root}"
        resharded += f"; {facts.fsdp_units} units: {', '.join(units)}" if units else ""
    spread = f" on {nodes(settings)} nodes" if nodes(settings) > 1 else ""
    name = f"{facts.ranks} ranks{spread}, {settings.get(STRATEGY)}, batch {settings.get('batch_size')}"
    return f"{name}: {case.workload.item}s/s by rank {rates}; threads {threads}; cores {cores}{places}{resharded}"


def _by_rank(values: Sequence[object]) -> str:
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
    return "; ".join(f"{rank}: {value}" for rank, value in enumerate(shown))


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────


OVER_SETTINGS, SINGLE_STEPS = "Pictures over the settings", "Single steps and gauges"
FIRST, MORE = "Pictures", "More pictures"
TRAINING = "Course of the training"


def run_pictures(summary: RunSummary, run: Run, training: TrainingMetrics | None = None) -> tuple[Section, ...]:
    """Return the picture that a run is about, and folded a section for each kind of picture that it has data for.

    What a search only probed is in the picture of the search alone: probes are no results.

    `run`: what its record has, raw values too, or of it the `pictured_part`; `training`: of a training to its end what
    its file of metrics has.
    """
    shown = without_probes(summary)
    search = courses.search_chart(summary) if isinstance(summary.answer, TuneResult) else None
    kinds: dict[str, list[Chart]] = {
        TRAINING: list(_of_a_training(summary, training)),
        OVER_SETTINGS: [*_over_settings(shown, run), *([search] if search is not None else [])],
        SINGLE_STEPS: list(_of_steps(shown, run)) if training is None else [],
    }
    found = [chart for charts in kinds.values() for chart in charts]
    if not found:
        return ()
    if isinstance(summary.answer, Diagnosis):  # which has shown what its remedies gain
        return (Section(MORE, tuple(Section(kind, tuple(c)) for kind, c in kinds.items() if c), folded=True),)
    first = _side_by_side(found) or found[0]
    panels = first.picture.panels
    rest = {kind: tuple(c for chart in charts for c in _without(chart, panels)) for kind, charts in kinds.items()}
    more = tuple(Section(kind, charts) for kind, charts in rest.items() if charts)
    return (Section(FIRST, (first,)), *((Section(MORE, more, folded=True),) if more else ()))


def _side_by_side(charts: Sequence[Chart]) -> Chart | None:
    """Return throughput and latency of one device in one picture; None where one of them is missing, or is more."""
    named = {chart.name: chart for chart in charts}
    rates, times = named.get(THROUGHPUT), named.get(LATENCY)
    if rates is None or times is None or len(rates.picture.panels) > 1:
        return None
    picture = Picture(
        "Throughput and latency by batch size", (*rates.picture.panels, times.picture.panels[0]), columns=2
    )
    return Chart(THROUGHPUT, f"{rates.says}. {times.says}", picture)


def _without(chart: Chart, shown: Sequence[Panel]) -> Iterator[Chart]:
    """Yield a chart without the panels that are shown already; nothing where all of them are."""
    if left := tuple(panel for panel in chart.picture.panels if panel not in shown):
        yield msgspec.structs.replace(chart, picture=msgspec.structs.replace(chart.picture, panels=left))


def pictured_part(summary: RunSummary) -> RecordPart:
    """Return which part of a run's record its pictures show: single steps of a few Cases, and losses."""
    whole = frozenset(case.case_id for case in chosen_cases(without_probes(summary)))
    return RecordPart(whole, compared_cases(summary), METRICS)


def _over_settings(summary: RunSummary, run: Run) -> Iterator[Chart]:
    yield from batch_size_charts(summary)
    losses = courses.losses_chart(summary, run) if compared(summary) else None
    over = (settings.ranks_chart, phases_chart, settings.pareto_chart, settings.roofline_chart)
    found = (*(chart(summary) for chart in over), losses)
    yield from (chart for chart in found if chart is not None)


def _of_a_training(summary: RunSummary, training: TrainingMetrics | None) -> Iterator[Chart]:
    if training is not None and summary.cases:
        yield from courses.training_charts(training, device_names(summary.machine)(summary.cases[0]))


def _of_steps(summary: RunSummary, run: Run) -> Iterator[Chart]:
    yield from courses.sample_charts(summary, run)
    telemetry = courses.telemetry_chart(summary, run)
    if telemetry is not None:
        yield telemetry
