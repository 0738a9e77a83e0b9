"""A run cut along one axis at a time: tables of seed S3's analyses, each with what it shows.

Compared are Cases that are equal in all else. A ratio whose interval holds 1 is called the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.grouping import equal_but_for, groups
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.roofline import UNKNOWN, Bound
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar, followers
from torchstone.core.schema.estimate import Verdict
from torchstone.core.stats.comparing import bonferroni

# Axis → title, and which values come first where they are words.
_AXES = {"batch_size": "by batch size", "optimizer": "by optimizer", "precision": "mixed precision"}
_FIRST = {"precision": ("fp32", "tf32", "bf16", "fp16")}
_SAME_MEMORY = 0.01
_IO = ("loader", "transfer")


class AnalysisLine(msgspec.Struct, frozen=True):
    """One Case of an analysis. Ratios are to its first line; `efficiency`: of what that much more could bring.

    Over batch sizes: throughput ÷ what the same time a step would give. Over model sizes: operations a second, of the
    smallest model's.
    """

    value: Scalar
    case_id: str
    throughput: float | None
    time_per_item_s: float | None
    memory_bytes: float | None
    throughput_ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    memory_ratio: float | None = None
    efficiency: float | None = None
    bottleneck: str | None = None
    share: float | None = None
    parameters: float | None = None


class Analysis(msgspec.Struct, frozen=True):
    """`by`: batch_size, optimizer, precision, model, bottleneck; `where`: what else varies; `says`: what it shows."""

    by: str
    title: str
    task: str
    model: str
    device: str
    where: Mapping[str, Scalar]
    lines: tuple[AnalysisLine, ...]
    says: tuple[Statement, ...]


def analyses(run: RunSummary) -> list[Analysis]:
    """Return every analysis that a run has two Cases for, and which resource bounds each Case, where it is known."""
    believed = _believed(run)
    return [*_ratios(_narrow(believed)), *_bottlenecks(believed)]


def batch_size_analyses(run: RunSummary) -> list[Analysis]:
    """Return those over batch sizes."""
    return [one for group in groups(_narrow(_believed(run))) for one in _along("batch_size", group)]


def reasons_left_out(run: RunSummary) -> dict[str, Statement]:
    """Return by the title of an analysis why Cases are not in it: their trials differ too much for a ratio."""
    believed = _believed(run)
    narrow = _narrow(believed)
    if len(narrow) == len(believed):
        return {}
    trials = {case.case_id: case.estimates["throughput"].trials for case in believed}
    every, shown = (_cases_by_title(_ratios(cases)) for cases in (believed, narrow))
    found = {}
    for title, ids in every.items():
        if gone := ids - shown.get(title, set()):
            fewest = min(trials[case_id] for case_id in gone)
            found[title] = Statement("cases_wide", {"count": len(gone), "of": len(ids), "trials": fewest})
    return found


def _believed(run: RunSummary) -> list[CaseSummary]:
    measured = [case for case in run.cases if case.verdict != Verdict.INVALID and "throughput" in case.estimates]
    return [case for case in measured if case.estimates["throughput"].value > 0.0]  # of others' claims some are 0


def _narrow(cases: Sequence[CaseSummary]) -> list[CaseSummary]:
    return [case for case in cases if not case.estimates["throughput"].is_wide]  # a ratio to others says nothing


def _ratios(cases: Sequence[CaseSummary]) -> list[Analysis]:
    found = [one for group in groups(cases) for axis in _AXES for one in _along(axis, group)]
    return [*found, *_model_sizes(cases)]


def _cases_by_title(found: Sequence[Analysis]) -> dict[str, set[str]]:
    by_title: dict[str, set[str]] = {}
    for one in found:
        by_title.setdefault(one.title, set()).update(line.case_id for line in one.lines)
    return by_title


def _along(axis: str, cases: Sequence[CaseSummary]) -> Iterator[Analysis]:
    own = (axis, *followers(axis))
    names = {name for case in cases for name in case.configuration}.difference(own)
    where = {name for name in names if len({str(case.configuration.get(name)) for case in cases}) > 1}
    for alike in equal_but_for(own, cases):
        by_value = {str(case.configuration.get(axis)): case for case in reversed(alike)}
        if len(by_value) < 2 or "None" in by_value:
            continue
        if axis == "batch_size" and not all(isinstance(case.configuration[axis], int) for case in alike):
            continue  # a stranger's record may have any word there
        ordered = sorted(by_value.values(), key=lambda case: _place(axis, case.configuration.get(axis)))
        lines = _lines(ordered, [case.configuration.get(axis) for case in ordered])
        if axis == "batch_size":
            lines = [_scaled(line, lines[0]) for line in lines]
        says = _of_batches(lines) if axis == "batch_size" else _of_words(lines)
        yield _analysis(axis, _AXES[axis], ordered, _where(ordered[0], where), lines, says)


def _place(axis: str, value: Scalar) -> tuple[float, str]:
    if isinstance(value, int | float):
        return float(value), ""
    order = _FIRST.get(axis, ())
    return float(order.index(str(value)) if value in order else len(order)), str(value)


def _where(case: CaseSummary, names: Collection[str]) -> Mapping[str, Scalar]:
    return {name: value for name, value in case.configuration.items() if name in names}


def _analysis(
    by: str,
    title: str,
    cases: Sequence[CaseSummary],
    where: Mapping[str, Scalar],
    lines: Sequence[AnalysisLine],
    says: Iterable[Statement],
) -> Analysis:
    work, device = cases[0].workload, str(cases[0].placement)
    return Analysis(by, title, str(work.task), work.model, device, where, tuple(lines), tuple(says))


def _lines(cases: Sequence[CaseSummary], values: Sequence[Scalar]) -> list[AnalysisLine]:
    first = cases[0].estimates["throughput"]
    least, rounds = cases[0].peak_memory_bytes, InRounds(cases)
    found = []
    for case, value in zip(cases, values, strict=True):
        rate, held = case.estimates["throughput"], case.peak_memory_bytes
        times = rate.value / first.value if first.value else None
        ratio: tuple[float | None, float | None, float | None] = (1.0, 1.0, 1.0)
        if case is not cases[0]:  # all ratios of the analysis hold together
            paired = rounds.ratio(case.case_id, cases[0].case_id, bonferroni(len(cases) - 1))
            ratio = paired or (times, None, None)
        found.append(
            AnalysisLine(
                value,
                case.case_id,
                rate.value,
                1.0 / rate.value if rate.value else None,
                held,
                *ratio,
                held / least if held and least else None,
                parameters=_parameters(case),
            )
        )
    return found


def _parameters(case: CaseSummary) -> float | None:
    found = next((t.facts.parameters for t in case.trials if t.facts.parameters is not None), None)
    return float(found) if isinstance(found, int | float) else None


def _scaled(line: AnalysisLine, first: AnalysisLine) -> AnalysisLine:
    more = float(line.value or 0) / float(first.value or 1)  # of whole numbers above 0
    share = line.throughput_ratio / more if line.throughput_ratio is not None else None
    return msgspec.structs.replace(line, efficiency=share)


def _of_batches(lines: Sequence[AnalysisLine]) -> Iterator[Statement]:
    first, last = lines[0], lines[-1]
    top = max(lines, key=lambda line: line.throughput or 0.0)
    ends = {"first": first.value, "last": last.value}
    if last.efficiency is None or not _differs(last):
        yield Statement("batches_as_fast", ends)
    else:
        more = float(last.value or 0) / float(first.value or 1)
        rate = {"items_times": more, "rate_times": last.throughput_ratio, "share": last.efficiency}
        yield Statement("batches_differ", {**ends, **rate})
        if top is not last:
            yield Statement("highest_at", {"value": top.value})
    if last.memory_ratio is not None:
        yield Statement("memory_grows", {"memory_times": last.memory_ratio})


def _of_words(lines: Sequence[AnalysisLine]) -> Iterator[Statement]:
    for line in lines[1:]:
        values = {"value": line.value, "than": lines[0].value, "memory": tuple(_of_memory(line.memory_ratio))}
        if _differs(line):
            yield Statement("value_times_as_fast", {**values, "rate_times": line.throughput_ratio})
        else:
            yield Statement("value_as_fast", values)


def _of_memory(times: float | None) -> Iterator[Statement]:
    if times is not None:
        alike = abs(times - 1.0) < _SAME_MEMORY
        yield Statement("in_as_much_memory") if alike else Statement("in_times_the_memory", {"memory_times": times})


def _differs(line: AnalysisLine) -> bool:
    return line.ratio_low is None or line.ratio_high is None or not line.ratio_low <= 1.0 <= line.ratio_high


def _model_sizes(cases: Sequence[CaseSummary]) -> Iterator[Analysis]:
    """Yield models of different sizes that were measured alike: is the larger one as good for the device?"""
    alike: dict[str, dict[str, CaseSummary]] = {}
    for case in cases:
        key = f"{case.workload.task} {case.workload.item} {case.placement} {sorted(case.configuration.items())}"
        if _parameters(case):
            alike.setdefault(key, {}).setdefault(case.workload.model, case)
    for models in alike.values():
        if len(models) < 2:
            continue
        ordered = sorted(models.values(), key=lambda case: _parameters(case) or 0.0)
        lines = _lines(ordered, [case.workload.model for case in ordered])
        done = [
            case.estimates["achieved_flops"].value if "achieved_flops" in case.estimates else None for case in ordered
        ]
        lines = [
            msgspec.structs.replace(line, efficiency=rate / done[0] if rate and done[0] else None)
            for line, rate in zip(lines, done, strict=True)
        ]
        first, last = lines[0], lines[-1]
        larger = (last.parameters or 0.0) / (first.parameters or 1.0)
        slower = 1.0 / last.throughput_ratio if last.throughput_ratio else 0.0
        says = Statement(
            "model_takes", {"large": last.value, "small": first.value, "size_times": larger, "time_times": slower}
        )
        if last.efficiency is not None:
            says = Statement("model_takes_at", {**says.values, "share": last.efficiency})
        yield _analysis("model", "by model size", ordered, {}, lines, (says,))


def _bottlenecks(cases: Sequence[CaseSummary]) -> Iterator[Analysis]:
    """Yield what bounds each Case (analysis/roofline.py): compute, memory, launches, or I/O."""
    for group in groups([case for case in cases if case.bound is not None]):
        names = [n for n in group[0].configuration if len({str(c.configuration.get(n)) for c in group}) > 1]
        lines = [
            msgspec.structs.replace(line, bottleneck=_bottleneck(case.bound), share=_share(case.bound))
            for line, case in zip(_lines(group, [_point_text(case, names) for case in group]), group, strict=True)
            if case.bound is not None
        ]
        bounds = tuple(_counted([case.bound for case in group if case.bound is not None]))
        says = Statement("bounds_of_cases", {"bounds": bounds, "of": len(lines)})
        yield _analysis("bottleneck", "bottleneck", group, {}, lines, (says,))


def _bottleneck(bound: Bound) -> str:
    return bound.what if bound.is_near or bound.what == UNKNOWN else f"none near (nearest: {bound.what})"


def _share(bound: Bound) -> float | None:
    """Return the share of the step that the bottleneck is; of a limit that is not near what it would need."""
    return bound.share if bound.is_near else bound.near if bound.what != UNKNOWN else None


def _counted(bounds: Sequence[Bound]) -> Iterator[Statement]:
    """Yield how many Cases each resource bounds, of how many none is near, and why it is not known of others."""
    for what, count in Counter(one.what for one in bounds if one.is_near).items():
        yield Statement("io_bounds" if what in _IO else "bounds", {"what": what, "count": count})
    if far := sum(not one.is_near and one.what != UNKNOWN for one in bounds):
        yield Statement("none_near", {"count": far})
    if unknown := [one for one in bounds if one.what == UNKNOWN]:
        yield Statement("bound_unknown", {"count": len(unknown), "why": unknown[0].evidence})


def _point_text(case: CaseSummary, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {case.configuration.get(name)}" for name in names) or "the case"
