"""The tables of a run: Cases of one workload together, the axes that vary as columns, each figure with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.best_values import BEST, SAME, marks
from torchstone.analysis.advice.choices import best_efficiency, choice_of, is_unusable
from torchstone.analysis.advice.fed import data_words, facts_of, fed_words
from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.axis import AXES, AxisStage, Scalar, scalar_word
from torchstone.core.schema.case import Task, model_name, portable
from torchstone.core.schema.estimate import Estimate, Verdict, too_wide
from torchstone.core.schema.load import SERVER
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.memory_figures import PEAKS
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.trial import Status, ended_well, estimation_trials, replicates
from torchstone.report.document import Column, Part, Role, Section, Table, Text
from torchstone.report.documents.choices import choice_parts
from torchstone.report.documents.load_results import verdict_column


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
    "throughput", "token_throughput", "latency_per_batch_p50_s", "latency_per_batch_p95_s", "latency_per_batch_p99_s",
)  # fmt: skip
_RATES = ("throughput", "output_token_throughput")
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
        data = data_words(first.workload, facts_of(*cases))
        title = f"{first.workload.task} {first.workload.model} on {first.placement}, data {data}"
        if first.workload.task == Task.CALL:
            title = f"{first.workload.task} {first.workload.model} on {first.placement}"
        if first.workload.is_program:
            title = f"{portable(first.workload.model)} on {first.placement}, {first.workload.task}"
        yield Section(title, tuple(_parts(run, cases, varying)))


def choices_of_groups(run: RunSummary) -> Iterator[Section]:
    """Yield what to choose of each workload and device that is here, where nothing else answered that."""
    found = [(cases, tuple(choice_parts(run, cases, varying))) for cases, varying in _groups(run)
             if run.answer is None and cases[0].workload.task != Task.LOADGEN]  # fmt: skip
    for cases, parts in found:
        if parts:
            first = cases[0]
            yield Section(f"{first.workload.task} {model_name(first.workload.model)} on {first.placement}", parts)


def _groups(run: RunSummary) -> Iterator[tuple[list[CaseSummary], list[str]]]:
    """Yield the cases of each workload and device that is here, in the order of their tables, and what varies."""
    for group in groups(on_devices_here(run)):
        varying = varying_axes(group)
        yield _sorted(group, varying), list(varying)


def _parts(run: RunSummary, cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[Part]:
    first = cases[0].configuration
    settings = ", ".join(f"{name} {scalar_word(first[name])}" for name in _named(first, varying))
    if told := "; ".join(filter(None, (settings, *fed_words(cases, varying)))):
        yield Text(told, Role.DETAIL)
    yield Table(tuple(_columns(cases, varying, run.machine)))
    shown = [f.name for f in _figures_with(_memory(cases), cases[0].workload.task) if f.interval]
    if wide := [e.trials for case in cases for name in shown if (e := case.estimates.get(name)) and e.is_wide]:
        yield Text(f"{_RANGE.strip()}: from the lowest trial to the highest, since {too_wide(min(wide))}")


def legend(sections: Sequence[Section]) -> Iterator[Text]:
    """Yield what the marks of these tables mean, where they have any."""
    tables = [part for section in sections for part in section.parts if isinstance(part, Table)]
    if any(cell.endswith((BEST, SAME)) for table in tables for column in table.columns for cell in column.cells):
        yield Text(f"{BEST} best (per GB: of those near the top), {SAME} not significantly different")


def _named(configuration: Mapping[str, Scalar], varying: Sequence[str]) -> list[str]:
    """Return the settings to name above a table: the usual ones, and of the model's own what is not the default."""
    usual = [name for name in _HEADLINE if name in configuration]
    other = [
        name for name, value in configuration.items()
        if name not in usual and (axis := AXES.get(name)) is not None and axis.stage in _STAGES and not axis.follows
        and value is not None and value != axis.default
    ]  # fmt: skip
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
    judged = [one for c in cases if c.verdict == Verdict.VALID and not is_unusable(one := choices[c.case_id])]
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
