"""Notes on measured Cases: what their curves over batch sizes, the phases of a step and the devices say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
from torchstone.analysis.advice.grouping import groups, over_devices, varying_axes
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import recorded_step
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Verdict
from torchstone.report.diagnosis_messages import advice_text, seen_text, text
from torchstone.report.document import Role, Text
from torchstone.report.documents.wording import point_words

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
    found = [(whole.value / middle.value, case, middle.value, whole.value) for case in cases
             if (middle := case.estimates.get("step_time_p50")) and (whole := case.estimates.get("step_time_mean"))
             and whole.value > _MUCH_LONGER * middle.value > 0.0]  # fmt: skip
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
    return told if recorded_step(run, case).known.idles else told[:most]


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
