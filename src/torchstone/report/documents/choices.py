"""What to choose among measured Cases: highest throughput, best efficiency, recommended, and the Pareto front.

The answer of a tune has the same Parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.choices import (
    NEAR_THE_TOP,
    Chosen,
    choice_of,
    choose,
    is_safe,
    is_unusable,
    same_within,
    unusable,
)
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.answer import Choice
from torchstone.core.schema.estimate import Verdict, too_wide
from torchstone.report.document import Part, Role, Text
from torchstone.report.documents.wording import band, differing, point_words

_SETTINGS = ("batch_size", "num_workers", "precision")  # named even where they do not vary
_FEW = 3  # Cases that are not significantly different from the fastest
_MOST = 6  # points of the front
_SAFE = {True: "safe", False: "tight", None: "not known whether safe"}


def choice_parts(run: RunSummary, cases: Sequence[CaseSummary], varying: Sequence[str]) -> Iterator[Part]:
    """Yield what to choose among the Cases of one workload, where two or more were measured."""
    valid = [c for c in cases if c.verdict == Verdict.VALID]
    choices = [choice_of(c, run.machine, _named(c, varying)) for c in valid]
    chosen = choose(choices, InRounds(valid))
    first, accelerator = cases[0].workload, cases[0].placement.device != "cpu"
    if chosen is not None:
        yield from chosen_parts(chosen, str(first.task), first.item, accelerator=accelerator)
    elif len(valid) > 1 and (wide := unusable(choices)):
        yield Text(f"Highest throughput: {units.MISSING}")
        yield Text(f"Recommended for {_purpose(str(first.task))}: {units.MISSING}")
        yield Text(too_wide(min(one.trials for one in wide)), Role.DETAIL)


def chosen_parts(
    chosen: Chosen, task: str, item: str, doubts: Mapping[str, str] | None = None, *, accelerator: bool = False
) -> Iterator[Text]:
    """Yield the three choices and the front. `doubts`: the verdict of Cases that are not beyond doubt, by case_id.

    `accelerator`: it is one's memory, of which people have an idea how full it should be.
    """
    rate, doubts = f"{item}s/s", doubts or {}
    if chosen.wide:
        points = "; ".join(point_words(one.point) for one in chosen.wide[:_FEW])
        few = too_wide(min(one.trials for one in chosen.wide))
        yield Text(f"Not compared: {points}{_and_more(len(chosen.wide))}: {few}")
    yield from _top(chosen, rate, doubts)
    efficient = chosen.best_efficiency
    if efficient is not None:
        yield Text(f"Best efficiency: {point_words(efficient.point)}")
        share = f"among those within {100 * (1 - NEAR_THE_TOP):.0f} % of the highest throughput"
        yield Text(f"{units.significant(efficient.efficiency or 0.0, 3)} {rate} per GB, {share}", Role.DETAIL)
    yield from _recommended(chosen, task, rate, doubts, accelerator=accelerator)
    if len(chosen.front) > 1:
        named = dict.fromkeys(axis for one in (chosen.highest_throughput, *chosen.front) for axis in one.point)
        axes = [axis for axis in named if len({one.point.get(axis) for one in chosen.front}) > 1]
        shown = "; ".join(_in_memory(one, axes) for one in chosen.front[-_MOST:])
        more = f"; {len(chosen.front) - _MOST} smaller" if len(chosen.front) > _MOST else ""
        yield Text(f"Pareto front, {'/'.join(axes)}: {shown}{more}")


def _top(chosen: Chosen, rate: str, doubts: Mapping[str, str]) -> Iterator[Text]:
    top = chosen.highest_throughput
    yield Text(f"Highest throughput: {point_words(top.point)}")
    yield Text(f"{_speed(top, rate, doubts)}, {_memory(top)}", Role.DETAIL)
    if chosen.same:
        points = "; ".join(map(point_words, differing([one.point for one, _ in chosen.same[:_FEW]], top.point)))
        within = _within(max(within for _, within in chosen.same))
        yield Text(f"not significantly different{within}: {points}{_and_more(len(chosen.same))}", Role.DETAIL)


def _recommended(
    chosen: Chosen, task: str, rate: str, doubts: Mapping[str, str], *, accelerator: bool
) -> Iterator[Text]:
    best, top = chosen.recommended, chosen.highest_throughput
    yield Text(f"Recommended for {_purpose(task)}: {point_words(best.point)}")
    aim = f", usual: {band(rules.MEMORY)}" if accelerator else ""
    told = f"{_speed(best, rate, doubts)}, {_memory(best, aim)}: {_SAFE[is_safe(best)]}{_busy(best)}"
    yield Text(told, Role.DETAIL)
    if best.case_id != top.case_id:
        yield Text(_instead(best, top), Role.DETAIL)


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
    return f", utilization {units.quantity(choice.utilization, 'ratio')} (usual: {band(rules.UTILIZATION)})"


def _memory(choice: Choice, aim: str = "") -> str:
    if choice.memory_bytes is None:
        return "memory not known"
    share = f" ({units.quantity(choice.memory_share, 'ratio')}{aim})" if choice.memory_share is not None else ""
    return f"memory {units.quantity(choice.memory_bytes, 'bytes')}{share}"


def _in_memory(choice: Choice, axes: Sequence[str]) -> str:
    values = "/".join(str(choice.point.get(axis, units.MISSING)) for axis in axes)
    rate, memory = units.significant(choice.throughput or 0.0, 3), units.quantity(choice.memory_bytes, "bytes")
    return f"{values}: {rate} in {memory}"
