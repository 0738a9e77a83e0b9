"""What to choose among measured Cases, in blocks: highest throughput, best efficiency, recommended; and what it means.

`tune` prints the same blocks from its Answer.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from torchstone import units
from torchstone.advice import batch_curve, usual
from torchstone.advice.choices import (
    NEAR_THE_TOP,
    Chosen,
    choice_of,
    choose,
    is_safe,
    is_unusable,
    same_within,
    unusable,
)
from torchstone.advice.devices import beside_the_cpu
from torchstone.advice.grouping import groups, over_devices, varying_axes
from torchstone.advice.in_rounds import InRounds
from torchstone.advice.reading import curve_of, curves, ran_out, read_memory, read_phases
from torchstone.cli._table import plain, terminal_width
from torchstone.cli._wording import point_words
from torchstone.summary import CaseSummary, RunSummary
from torchstone.terms.answer import Choice
from torchstone.terms.axis import Scalar
from torchstone.terms.case import model_name
from torchstone.terms.estimate import Verdict, too_wide

_SETTINGS = ("batch_size", "num_workers", "precision")  # named in a block even where they do not vary
_FEW = 3  # Cases that cannot be told from the fastest
_MOST = 6  # points of the front, ratios of batch sizes
_SAFE = {True: "safe", False: "tight", None: "not known whether safe"}


def print_blocks(
    run: RunSummary, cases: Sequence[CaseSummary], varying: Sequence[str], width: int | None = None
) -> None:
    """Print what to choose among the Cases of one workload, where two or more were measured."""
    width = width or terminal_width()
    believed = [c for c in cases if c.verdict != Verdict.INVALID]
    choices = [choice_of(c, run.machine, _named(c, varying)) for c in believed]
    chosen = choose(choices, InRounds(believed))
    if chosen is None:
        if len(believed) > 1 and (wide := unusable(choices)):
            fewest = min(one.trials for one in wide)
            print(f"\nHighest throughput: {units.MISSING}")
            print(f"Recommended for {_purpose(str(cases[0].workload.task))}: {units.MISSING}")
            print(textwrap.fill(f"  {too_wide(fewest)}", width, subsequent_indent="  "))
        return
    doubts = {c.case_id: str(c.verdict) for c in believed if c.verdict != Verdict.VALID}
    first, accelerator = cases[0].workload, cases[0].placement.device != "cpu"
    print()
    for line in block_lines(chosen, str(first.task), first.item, doubts, accelerator=accelerator):
        print(textwrap.fill(plain(line), width, subsequent_indent="    "))


def print_readings(run: RunSummary, width: int | None = None, *, every: bool = False) -> None:
    """Print what the curves over batch sizes and the phases of a step say; with `every` of all Cases."""
    width = width or terminal_width()
    found = [(group, list(_told(run, group, every=every))) for group in groups(run.cases)]
    several = sum(bool(lines) for _, lines in found) > 1
    compared = list(_over_devices(run))
    if compared or any(lines for _, lines in found):
        print()
    for group, lines in found:
        name = f"{group[0].workload.task} {model_name(group[0].workload.model)}{_place(run, group)}: "
        for line in lines:
            print(textwrap.fill(plain(f"note: {name if several else ''}{line}"), width, subsequent_indent="  "))
    for line in compared:
        print(textwrap.fill(plain(f"note: {line}"), width, subsequent_indent="  "))


def _place(run: RunSummary, cases: Sequence[CaseSummary]) -> str:
    """Return on which device these Cases ran, where the run has several."""
    return f" on {cases[0].placement}" if len({str(case.placement) for case in run.cases}) > 1 else ""


def _over_devices(run: RunSummary) -> Iterator[str]:
    """Yield how each accelerator stands beside the CPU, where a workload was measured on both."""
    for cases in over_devices([case for case in run.cases if case.verdict != Verdict.INVALID]):
        first = cases[0].workload
        for one in beside_the_cpu(cases):
            yield f"{first.task} {model_name(first.model)}: {one.advice}"


def _told(run: RunSummary, cases: Sequence[CaseSummary], *, every: bool) -> Iterator[str]:
    believed = [c for c in cases if c.verdict != Verdict.INVALID]
    varying = varying_axes(cases)
    chosen = choose([choice_of(c, run.machine, varying) for c in believed], InRounds(believed))
    if chosen is not None:
        best = next(c for c in believed if c.case_id == chosen.recommended.case_id)
        yield from _readings(run, best, believed, varying, every=every)
        return
    for case in believed:
        name = f"{point_words(_values(case, varying))}: " if len(believed) > 1 else ""
        yield from (f"{name}{one}" for one in (*read_phases(case, run.machine), *read_memory(case, run)))


def block_lines(
    chosen: Chosen, task: str, item: str, doubts: Mapping[str, str] | None = None, *, accelerator: bool = False
) -> Iterator[str]:
    """Yield the three blocks and the front. `doubts`: the verdict of Cases that are not beyond doubt.

    `accelerator`: it is one's memory, of which people have an idea how full it should be.
    """
    rate, doubts = f"{item}s/s", doubts or {}
    top, best, efficient = chosen.highest_throughput, chosen.recommended, chosen.best_efficiency
    if chosen.wide:
        points = "; ".join(point_words(one.point) for one in chosen.wide[:_FEW])
        more = f"; and {len(chosen.wide) - _FEW} more" if len(chosen.wide) > _FEW else ""
        yield f"Not compared: {points}{more}: {too_wide(min(one.trials for one in chosen.wide))}"
    yield f"Highest throughput: {point_words(top.point)}"
    yield f"  {_speed(top, rate, doubts)}, {_memory(top)}"
    if chosen.same:
        points = "; ".join(point_words(_differing(one.point, top.point)) for one, _ in chosen.same[:_FEW])
        more = f"; and {len(chosen.same) - _FEW} more" if len(chosen.same) > _FEW else ""
        yield f"  not significantly different{_within(max(within for _, within in chosen.same))}: {points}{more}"
    if efficient is not None:
        yield f"Best efficiency: {point_words(efficient.point)}"
        share = f"among those within {100 * (1 - NEAR_THE_TOP):.0f} % of the highest throughput"
        yield f"  {units.significant(efficient.efficiency or 0.0, 3)} {rate} per GB, {share}"
    yield f"Recommended for {_purpose(task)}: {point_words(best.point)}"
    aim = f", usual: {usual.band(usual.MEMORY)}" if accelerator else ""
    yield f"  {_speed(best, rate, doubts)}, {_memory(best, aim)}: {_SAFE[is_safe(best)]}{_busy(best)}"
    if best.case_id != top.case_id:
        yield f"  {_instead(best, top)}"
    if len(chosen.front) > 1:
        named = dict.fromkeys(axis for one in chosen.front for axis in one.point)
        axes = [axis for axis in named if len({one.point.get(axis) for one in chosen.front}) > 1]
        shown = "; ".join(_in_memory(one, axes) for one in chosen.front[-_MOST:])
        more = f"; {len(chosen.front) - _MOST} smaller" if len(chosen.front) > _MOST else ""
        yield f"Pareto front, {'/'.join(axes)}: {shown}{more}"


def _purpose(task: str) -> str:
    return {"train": "training", "infer": "inference", "generate": "generation"}.get(task, task)


def _instead(best: Choice, top: Choice) -> str:
    within = same_within(best, top)
    if within is not None:
        return f"not significantly slower than the highest{_within(within)}, in less memory"
    return "the fastest that leaves a tenth of the memory free"


def _within(share: float) -> str:
    """Return what a difference may still be; nothing where that is too much to be told."""
    return f" (within ±{100 * share:.1f} %)" if share <= units.WIDEST else ""


def _differing(point: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    return {axis: value for axis, value in point.items() if other.get(axis) != value}


def _named(case: CaseSummary, varying: Sequence[str]) -> list[str]:
    """The axes that vary, and those that people look for; workers only where there is a loader."""
    loads = case.configuration.get("feed") == "loader"
    fixed = [n for n in _SETTINGS if n in case.configuration and (n != "num_workers" or loads)]
    return list(dict.fromkeys((*varying, *fixed)))


def _speed(choice: Choice, rate: str, doubts: Mapping[str, str]) -> str:
    if is_unusable(choice):
        return f"{units.MISSING} {rate} ({too_wide(choice.trials)})"
    around = units.spread(choice.throughput or 0.0, choice.throughput_low, choice.throughput_high)
    doubt = f" ({doubts[choice.case_id]})" if choice.case_id in doubts else ""
    return f"{units.significant(choice.throughput or 0.0, 4)} {rate} {around}".rstrip() + doubt


def _busy(choice: Choice) -> str:
    if choice.utilization is None:
        return ""
    return f", utilization {units.quantity(choice.utilization, 'ratio')} (usual: {usual.band(usual.UTILIZATION)})"


def _memory(choice: Choice, aim: str = "") -> str:
    if choice.memory_bytes is None:
        return "memory not known"
    share = f" ({units.quantity(choice.memory_share, 'ratio')}{aim})" if choice.memory_share is not None else ""
    return f"memory {units.quantity(choice.memory_bytes, 'bytes')}{share}"


def _in_memory(choice: Choice, axes: Sequence[str]) -> str:
    # Of a search that was cut, cases with and without a loader may stand beside each other: not every axis is of each.
    values = "/".join(str(choice.point.get(axis, units.MISSING)) for axis in axes)
    rate, memory = units.significant(choice.throughput or 0.0, 3), units.quantity(choice.memory_bytes, "bytes")
    return f"{values}: {rate} in {memory}"


def _readings(
    run: RunSummary, best: CaseSummary, cases: Sequence[CaseSummary], varying: Sequence[str], *, every: bool
) -> Iterator[str]:
    """Yield what the curve and the phases of the recommended Case say; with `every` those of all, in fewer words."""
    curve = curve_of(best, cases, run.machine)
    if curve is not None:
        yield _times(curve, best, varying)
        yield from map(str, batch_curve.advise(curve, best.configuration, ran_out(best, run.cases)))
    yield from map(str, read_phases(best, run.machine))
    if not every:
        return
    for case, other in curves(cases, run.machine):
        if curve is None or other.points != curve.points:
            yield _times(other, case, varying)
            told = batch_curve.advise(other, case.configuration, ran_out(case, run.cases))
            yield from (advice.seen for advice in told)
    for case in cases:
        if case.case_id != best.case_id and (found := read_phases(case, run.machine)):
            yield f"{point_words(_values(case, varying))}: {'; '.join(advice.seen for advice in found)}"


def _times(curve: batch_curve.Curve, case: CaseSummary, varying: Sequence[str]) -> str:
    """Say how many times faster each batch size is than the smallest."""
    others = _values(case, [axis for axis in varying if axis != "batch_size"])
    first, where = curve.points[0], f"with {point_words(others)}, " if others else ""
    base = f"batch_size {first.batch} ({units.significant(first.throughput, 3)} {case.workload.item}s/s)"
    told = (f"{size}: {batch_curve.times(n, 'not significant')}" for size, n in batch_curve.ratios(curve))
    return f"{where}speed-up over {base}: {', '.join(told)}"


def _values(case: CaseSummary, axes: Sequence[str]) -> Mapping[str, Scalar]:
    return {axis: case.configuration.get(axis) for axis in axes}
