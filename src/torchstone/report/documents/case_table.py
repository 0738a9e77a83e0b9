"""The tables of a run: Cases of one workload together, the axes that vary as columns, each figure with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.choices import (
    NEAR_THE_TOP,
    Chosen,
    best_efficiency,
    choice_of,
    choose,
    is_safe,
    is_unusable,
    same_within,
    unusable,
)
from torchstone.analysis.advice.grouping import groups, on_devices_here, varying_axes
from torchstone.analysis.advice.in_rounds import BEST, SAME, InRounds, marks
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.quality import is_as_good
from torchstone.core.schema.answer import Choice
from torchstone.core.schema.axis import AXES, AxisStage, Scalar, scalar_word, variant_name
from torchstone.core.schema.case import Task, model_name, portable
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.metric import FIGURES, PEAKS
from torchstone.core.schema.procedure import SERVER
from torchstone.core.schema.trial import Status, ended_well, estimation_trials, replicates
from torchstone.report.document import Column, Part, Role, Section, Table, Text
from torchstone.report.documents.feed import data_words, fed_words, feed_facts
from torchstone.report.documents.load_results import verdict_column
from torchstone.report.documents.run_answer import own_values, percent_range, point_words, quality_words


class _Figure(msgspec.Struct, frozen=True):
    """A column: its title, unit and rank are those of FIGURES. `ms`: bare numbers of milliseconds.

    `interval`: its interval stands beside it; `around`: the rank of that, where it is to leave before the value.
    """

    name: str
    interval: bool = False
    around: int = 0
    ms: bool = False

    def title(self, item: str) -> str:
        """Return what the column is called, with its unit where the cells have none."""
        if self.name == "output_token_throughput":
            return "output tokens/s"
        unit = "ms" if self.ms else f"{item}s/s" if self.name == "throughput" else ""
        return f"{FIGURES[self.name].title} {unit}".rstrip()


_FIGURES = (
    _Figure("phase_data_s", ms=True),
    _Figure("phase_transfer_s", ms=True),
    _Figure("phase_prefill_s", ms=True),
    _Figure("phase_decode_s", ms=True),
    _Figure("phase_forward_s", ms=True),
    _Figure("phase_backward_s", ms=True),
    _Figure("phase_optimizer_s", ms=True),
    _Figure("phase_rest_s", ms=True),
    _Figure("step_time_mean", ms=True),  # to which the phases sum, and which goes with the rate
    _Figure("step_time_p50", ms=True),
    _Figure("throughput", interval=True),
    _Figure("token_throughput"),
    _Figure("output_token_throughput", interval=True),
    _Figure("time_to_first_token_p50_s", interval=True, around=2),
    _Figure("time_per_output_token_p50_s", interval=True, around=2),
    _Figure("time_to_first_token_p95_s"),
    _Figure("time_per_output_token_p95_s"),
    _Figure("query_latency_p50_s"),
    _Figure("query_latency_p99_s", interval=True),
    _Figure("items_per_batch"),
    _Figure("kv_cache_bytes"),
    _Figure("latency_per_batch_p50_s", interval=True),
    _Figure("latency_per_batch_p95_s"),
    _Figure("latency_per_batch_p99_s"),
    _Figure("relative_output_error"),
    _Figure("top1_agreement"),
    _Figure("exported_bytes"),
    _Figure("export_time_s"),
    _Figure("build_time_s"),
    _Figure("time_to_first_prediction_s"),
    _Figure("device_utilization"),
    _Figure("data_wait_share"),
    _Figure("peak_reserved_bytes"),
    _Figure("peak_rss_bytes"),
    _Figure("average_power_w"),
    _Figure("energy_per_item_j"),
    _Figure("achieved_flops"),
    _Figure("loss_first"),
    _Figure("loss_last"),
    _Figure("model_load_time_s"),
)
# Whose place the times and rates of tokens take, where text is generated.
_OF_WHOLE_ANSWERS = (
    "throughput",
    "token_throughput",
    "latency_per_batch_p50_s",
    "latency_per_batch_p95_s",
    "latency_per_batch_p99_s",
)
_RATES = ("throughput", "output_token_throughput")
_MOST_ROWS = 24  # of a table of cases: longer ones begin with the fastest, and the rest is behind --full
_MEMORY_RANK, _EFFICIENCY_RANK, _TRIALS_RANK = 3, 4, 10
# Settings worth naming above a table even where they do not vary.
_HEADLINE = ("precision", "sequence_length", "new_tokens", "image_size", "compile", "optimizer")
_STAGES = (AxisStage.HOST, AxisStage.MODEL, AxisStage.OPTIMIZER)  # whose settings are named if they are no default
_SHORT = {Status.OUT_OF_MEMORY: "OOM", Status.TIMED_OUT: "timeout"}
_RANGE = " … "  # between the lowest and the highest trial
_INTERVAL = "±"


def case_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section for each workload and device that is here: what fed it, and its table."""
    for cases, varying in _groups(run):
        first = cases[0]
        data = data_words(first.workload, feed_facts(*cases))
        title = f"{first.workload.task} {first.workload.model} on {first.placement}, data {data}"
        if first.workload.task == Task.CALL:
            title = f"{first.workload.task} {first.workload.model} on {first.placement}"
        if first.workload.is_program:
            title = f"{portable(first.workload.model)} on {first.placement}, {first.workload.task}"
        yield Section(title, tuple(_parts(run, cases, varying)))


def choices_of_groups(run: RunSummary) -> Iterator[Section]:
    """Yield what to choose of each workload and device that is here, where nothing else answered that."""
    found = [
        (cases, tuple(choice_parts(run, cases, varying)))
        for cases, varying in _groups(run)
        if run.answer is None and cases[0].workload.task != Task.LOADGEN
    ]
    for cases, parts in found:
        if parts:
            first = cases[0]
            yield Section(f"{first.workload.task} {model_name(first.workload.model)} on {first.placement}", parts)


def _groups(run: RunSummary) -> Iterator[tuple[list[CaseSummary], list[str]]]:
    """Yield the cases of each workload and device that is here, in the order of their tables, and what varies."""
    for group in groups(on_devices_here(run)):
        varying = varying_axes(group)
        in_order = _sorted(group, varying)
        yield (_fastest_first(in_order) if len(in_order) > _MOST_ROWS else in_order), list(varying)


def _fastest_first(cases: Sequence[CaseSummary]) -> list[CaseSummary]:
    """Sort by throughput, in doubt or not; what has none comes last. What a load asked for stays as it is."""
    if cases[0].workload.task == Task.LOADGEN:
        return list(cases)
    rates = [c.estimates.get("throughput") for c in cases]
    order = sorted(range(len(cases)), key=lambda n: -rate.value if (rate := rates[n]) is not None else 0.0)
    return [cases[n] for n in order]


def _parts(run: RunSummary, cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[Part]:
    first = cases[0].configuration
    settings = ", ".join(f"{name} {scalar_word(first[name])}" for name in _named(first, varying))
    fed = fed_words(cases, varying) if "feed" not in varying else []
    if alike := ", ".join(filter(None, (settings, *fed))):
        yield Text(alike, Role.DETAIL)
    if len(cases) > _MOST_ROWS:
        yield Text("fastest first", Role.DETAIL)
    yield Table(tuple(_columns(cases, varying, run.machine)), most=_MOST_ROWS)
    if told := "; ".join(_outputs(cases)):
        yield Text(f"outputs beside eager mode's: {told}")
    shown = [f.name for f in _figures_with(_memory(cases), cases[0].workload.task) if f.interval]
    if any((e := case.estimates.get(name)) and e.is_wide for case in cases for name in shown):
        yield Text(f"{_RANGE.strip()}: from the lowest trial to the highest, where the interval is wider than ±50 %")


def _outputs(cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield how far the outputs of each runtime and format are from eager mode's, at worst over its Cases."""
    for runtime in dict.fromkeys(variant_name(case.configuration) for case in cases):
        own = [case.estimates for case in cases if variant_name(case.configuration) == runtime]
        errors = [found["relative_output_error"].value for found in own if "relative_output_error" in found]
        same = [found["top1_agreement"].value for found in own if "top1_agreement" in found]
        judged = (quality_words(case.quality) for case in cases if variant_name(case.configuration) == runtime)
        if errors:
            top = f"top-1 agreement {units.percent(min(same), 1)}" if same else ""
            told = next(filter(None, (*judged, top)), "")
            yield f"{runtime} relative error {units.significant(max(errors), 2)}{told and f', {told}'}"


def legend(sections: Sequence[Section]) -> Iterator[Text]:
    """Yield what the marks of these tables mean, where they have any."""
    tables = [part for section in sections for part in section.parts if isinstance(part, Table)]
    if any(cell.endswith((BEST, SAME)) for table in tables for column in table.columns for cell in column.cells):
        yield Text(f"{BEST} best (per GB: of those near the top), {SAME} not significantly different")


def _named(configuration: Mapping[str, Scalar], varying: Sequence[str]) -> list[str]:
    """Return the settings to name above a table: the usual ones, and of the model's own what is not the default."""
    usual = [name for name in _HEADLINE if name in configuration]
    other = [
        name
        for name, value in configuration.items()
        if name not in usual
        and (axis := AXES.get(name)) is not None
        and axis.stage in _STAGES
        and not axis.follows
        and value is not None
        and value != axis.default
    ]
    return [name for name in (*usual, *other) if name not in varying]


def _sorted(cases: Sequence[CaseSummary], varying: Sequence[str]) -> list[CaseSummary]:
    """Sort by the axes: numbers by value, words in the order in which they came."""
    words = {n: list(dict.fromkeys(c.configuration.get(n) for c in cases)) for n in varying}

    def key(axis: str, value: Scalar) -> tuple[int, float]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return (0, float(value or 0)) if number else (1, words[axis].index(value))

    return sorted(cases, key=lambda c: [key(n, c.configuration.get(n)) for n in varying])


def _columns(cases: Sequence[CaseSummary], varying: Sequence[str], machine: Machine) -> list[Column]:
    found = [Column(n.replace("_", " "), tuple(_setting(c, n) for c in cases)) for n in varying]
    memory = _memory(cases)
    has_mean = any("step_time_mean" in c.estimates for c in cases)
    for figure in _figures_with(memory, cases[0].workload.task):
        estimates = [c.estimates.get(figure.name) for c in cases]
        if not any(estimates) or (has_mean and figure.name == "step_time_p50"):
            continue
        marked = _marked(cases, figure.name, memory)
        rank = _MEMORY_RANK if figure.name == memory else FIGURES[figure.name].rank or 0
        values = tuple(_cell(e, figure) + mark for e, mark in zip(estimates, marked, strict=True))
        found.append(Column(figure.title(cases[0].workload.item), values, rank))
        if figure.interval:
            around = tuple(_around(e) if e else "" for e in estimates)
            found.append(Column(_INTERVAL, around, figure.around or rank, of=len(found) - 1))
        if figure.name == memory and cases[0].workload.task != Task.LOADGEN:
            found.append(_efficiency(cases, machine))
    if cases[0].workload.task == Task.LOADGEN:
        found.append(verdict_column(cases))
    found.append(Column("trials", tuple(map(_trials, cases)), _TRIALS_RANK))
    found.append(Column("status", tuple(map(_status, cases)), left=True))
    return found


def _marked(cases: Sequence[CaseSummary], figure: str, memory: str | None) -> list[str]:
    """Return the mark of each Case in the column of a figure that has a best; what is in doubt has none."""
    if figure not in (*_RATES, memory) or cases[0].workload.task == Task.LOADGEN:  # their rate was asked for
        return [""] * len(cases)
    judged = [c.estimates.get(figure) if c.verdict == Verdict.VALID else None for c in cases]
    rounds = InRounds(cases, figure) if figure not in PEAKS else None  # memory does not come and go with a round
    return marks(judged, higher=figure in _RATES, cases=[case.case_id for case in cases], rounds=rounds)


def _memory(cases: Sequence[CaseSummary]) -> str | None:
    """Return which memory is compared: the device's, where any Case has it."""
    return next((name for name in PEAKS if any(name in c.estimates for c in cases)), None)


def _figures_with(memory: str | None, task: Task) -> Iterator[_Figure]:
    """Yield the figures; where a device tells only what is allocated, that stands in the column of what is reserved."""
    for figure in _FIGURES:
        if task == Task.GENERATE and figure.name in _OF_WHOLE_ANSWERS:
            continue
        allocated = figure.name == "peak_reserved_bytes" and memory == "peak_allocated_bytes"
        yield msgspec.structs.replace(figure, name=memory) if allocated else figure


def _efficiency(cases: Sequence[CaseSummary], machine: Machine) -> Column:
    """Items/s for each GB; the best is the one of DESIGN §9, among those near the top."""
    choices = {c.case_id: choice_of(c, machine, ()) for c in cases}
    several = sum(one.efficiency is not None for one in choices.values()) > 1
    kinds = {variant_name(c.configuration) for c in cases}
    good = [c for c in cases if c.verdict == Verdict.VALID and (len(kinds) == 1 or is_as_good(c.quality))]
    judged = [one for c in good if not is_unusable(one := choices[c.case_id])]
    best = best_efficiency(judged) if several and len(judged) > 1 else None
    cells = [""] * len(cases)
    if several:
        values = [choices[c.case_id].efficiency for c in cases]
        cells = [units.MISSING if value is None else units.significant(value, 3) for value in values]
        marked = (BEST if best is not None and best.case_id == c.case_id else "" for c in cases)
        cells = [cell + mark for cell, mark in zip(cells, marked, strict=True)]
    return Column("items/s per GB", tuple(cells), _EFFICIENCY_RANK)


def _around(estimate: Estimate) -> str:
    """Return half the interval of an estimate; in its place, where it is too wide, the lowest and the highest trial."""
    if not estimate.is_wide or estimate.lowest is None or estimate.highest is None:
        return units.spread(estimate.value, estimate.low, estimate.high)
    divisor, _ = units.scale_of(estimate.value, estimate.unit)
    return _RANGE.join(units.significant(end / divisor, 3) for end in (estimate.lowest, estimate.highest))


def _cell(estimate: Estimate | None, figure: _Figure) -> str:
    if estimate is None:
        return units.MISSING
    if figure.ms:
        ms = estimate.value / 1e-3
        return units.significant(ms, 3) if ms >= 1.0 else f"{ms:.3f}"
    if figure.name in _RATES:
        return units.significant(estimate.value, 4)
    text = units.quantity(estimate.value, estimate.unit)
    return text if estimate.supported else f"({text})"


def _setting(case: CaseSummary, axis: str) -> str:
    """Return the value of an axis; a dash for a rate in a scenario without one, and for what a program sets itself."""
    has_none = axis == "target_qps" and case.configuration.get("scenario") != SERVER
    has_none |= case.workload.is_program and axis not in case.configuration
    return units.MISSING if has_none else str(case.configuration.get(axis))


def _trials(case: CaseSummary) -> str:
    good = ended_well(case.trials)
    used = len(estimation_trials(good)) if replicates(good) else len(good)
    return str(used) if used == len(case.trials) else f"{used} of {len(case.trials)}"


def _status(case: CaseSummary) -> str:
    """Return `ok`, what to doubt, or how it ended; why is told below the tables."""
    if not case.trials:
        return "not taken"
    bad = [t.outcome.status for t in case.trials if t.outcome.status != Status.OK]
    bad.sort(key=lambda status: status == Status.SKIPPED)  # why the first failed says more
    if bad and case.verdict == Verdict.INVALID:
        return _short(bad[0])
    judged = "ok" if case.verdict == Verdict.VALID else str(case.verdict)
    return f"{judged}, {len(bad)} {_short(bad[0])}" if bad else judged


def _short(status: Status) -> str:
    return _SHORT.get(status, str(status))


# ── what to choose ──────────────────────────────────────────────────────────────────────────────────────────


_SETTINGS = ("batch_size", "num_workers", "precision")  # named even where they do not vary
_FEW = 3  # Cases that are not significantly different from the fastest
_MOST = 6  # points of the front
_SAFE = {True: "safe", False: "tight", None: "not known whether safe"}


def choice_parts(run: RunSummary, cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[Part]:
    """Yield what to choose among the Cases of one workload, where two or more were measured."""
    valid = [c for c in cases if c.verdict == Verdict.VALID]
    choices = [choice_of(c, run.machine, _choice_named(c, varying)) for c in valid]
    chosen = choose(choices, InRounds(valid))
    first, accelerator = cases[0].workload, cases[0].placement.device != "cpu"
    if chosen is not None:
        yield from chosen_parts(chosen, str(first.task), first.item, accelerator=accelerator)
    elif len(valid) > 1 and (wide := unusable(choices)):
        yield Text(f"Highest throughput: {units.MISSING}")
        yield Text(f"Recommended for {_purpose(str(first.task))}: {units.MISSING}")
        yield Text(too_wide(min(one.trials for one in wide)), Role.DETAIL)


def chosen_parts(chosen: Chosen, task: str, item: str, *, accelerator: bool = False) -> Iterator[Text]:
    """Yield the three choices and the front.

    `accelerator`: it is one's memory, of which people have an idea how full it should be.
    """
    rate = f"{item}s/s"
    if chosen.wide:
        points = "; ".join(point_words(one.point) for one in chosen.wide[:_FEW])
        few = too_wide(min(one.trials for one in chosen.wide))
        yield Text(f"Not compared: {points}{_and_more(len(chosen.wide))}: {few}")
    yield from _top(chosen, rate)
    efficient = chosen.best_efficiency
    if efficient is not None:
        yield Text(f"Best efficiency: {point_words(efficient.point)}")
        share = f"among those within {100 * (1 - NEAR_THE_TOP):.0f} % of the highest throughput"
        yield Text(f"{units.significant(efficient.efficiency or 0.0, 3)} {rate} per GB, {share}", Role.DETAIL)
    best, top = chosen.recommended, chosen.highest_throughput
    yield Text(f"Recommended for {_purpose(task)}: {point_words(best.point)}")
    aim = f", usual: {percent_range(rules.MEMORY)}" if accelerator else ""
    told = f"{_speed(best, rate)}, {_memory_words(best, aim)}: {_SAFE[is_safe(best)]}{_busy(best)}"
    yield Text(told, Role.DETAIL)
    if best.case_id != top.case_id:
        yield Text(_instead(best, top), Role.DETAIL)
    if len(chosen.front) > 1:
        named = dict.fromkeys(axis for one in (chosen.highest_throughput, *chosen.front) for axis in one.point)
        axes = [axis for axis in named if len({one.point.get(axis) for one in chosen.front}) > 1]
        shown = "; ".join(_in_memory(one, axes) for one in chosen.front[-_MOST:])
        more = f"; {len(chosen.front) - _MOST} smaller" if len(chosen.front) > _MOST else ""
        yield Text(f"Pareto front, {'/'.join(axes)}: {shown}{more}")


def _top(chosen: Chosen, rate: str) -> Iterator[Text]:
    top = chosen.highest_throughput
    yield Text(f"Highest throughput: {point_words(top.point)}")
    yield Text(f"{_speed(top, rate)}, {_memory_words(top)}", Role.DETAIL)
    if chosen.same:
        points = "; ".join(map(point_words, own_values([one.point for one, _ in chosen.same[:_FEW]], top.point)))
        within = _within(max(within for _, within in chosen.same))
        yield Text(f"not significantly different{within}: {points}{_and_more(len(chosen.same))}", Role.DETAIL)


def _purpose(task: str) -> str:
    return {"train": "training", "infer": "inference", "generate": "generation"}.get(task, task)


def _and_more(count: int) -> str:
    return f"; and {count - _FEW} more" if count > _FEW else ""


def _instead(best: Choice, top: Choice) -> str:
    within = same_within(best, top)
    if within is not None:
        return f"not significantly slower than the highest{_within(within)}, in less memory"
    return "the fastest that leaves a tenth of the memory free"


def _within(share: float) -> str:
    """Return what a difference may still be; nothing where that is too much to be told."""
    return f" (within ±{100 * share:.1f} %)" if share <= units.WIDEST else ""


def _choice_named(case: CaseSummary, varying: Sequence[str]) -> list[str]:
    """The axes that vary, and those that people look for; workers only where there is a loader."""
    loads = case.configuration.get("feed") == "loader"
    fixed = [n for n in _SETTINGS if n in case.configuration and (n != "num_workers" or loads)]
    return list(dict.fromkeys((*varying, *fixed)))


def _speed(choice: Choice, rate: str) -> str:
    if is_unusable(choice):
        return f"{units.MISSING} {rate} ({too_wide(choice.trials)})"
    around = units.spread(choice.throughput or 0.0, choice.throughput_low, choice.throughput_high)
    return f"{units.significant(choice.throughput or 0.0, 4)} {rate} {around}".rstrip()


def _busy(choice: Choice) -> str:
    if choice.utilization is None:
        return ""
    return f", utilization {units.quantity(choice.utilization, 'ratio')} (usual: {percent_range(rules.UTILIZATION)})"


def _memory_words(choice: Choice, aim: str = "") -> str:
    if choice.memory_bytes is None:
        return "memory not known"
    share = f" ({units.quantity(choice.memory_share, 'ratio')}{aim})" if choice.memory_share is not None else ""
    return f"memory {units.quantity(choice.memory_bytes, 'bytes')}{share}"


def _in_memory(choice: Choice, axes: Sequence[str]) -> str:
    values = "/".join(str(choice.point.get(axis, units.MISSING)) for axis in axes)
    rate, memory = units.significant(choice.throughput or 0.0, 3), units.quantity(choice.memory_bytes, "bytes")
    return f"{values}: {rate} in {memory}"
