"""Which is faster at each task, over all its Cases; the sentence is made where it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import fmean

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, JudgedFigure
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.student import from_log

_DECIDED = (Judgement.BETTER, Judgement.WORSE, Judgement.SAME)


class TaskResult(StrEnum):
    """How the participants stand."""

    FASTER = "faster"  # `faster` is
    DEPENDS = "depends"  # on the Case
    EQUIVALENT = "equivalent"  # within the margin
    UNCLEAR = "unclear"
    LEADS = "leads"  # the first of `ranked`, though `even` or `ahead` of some Cases are as fast


class Ranked(msgspec.Struct, frozen=True):
    """One of several participants: its throughput relative to the baseline, one a Case, and the mean of these.

    The baseline itself has the mean 1 and no ratios. `lead`: how many times as fast the fastest one is as this one.
    """

    letter: str
    mean: float
    ratios: tuple[Estimate, ...] = ()
    lead: tuple[Estimate, ...] = ()


class TaskAnswer(msgspec.Struct, frozen=True):
    """The answer for a task. `faster`: the letter of the fastest; None where it is not one, or not known.

    Of two: `candidate` and its `ratios` of throughput to the baseline, one a Case; `better`, `worse` and `open` Cases;
    `trials_to_settle` of each would decide those that are unclear; of a training, `trained`, there is one trial.
    Of several: `ranked`, the fastest first.
    """

    task: str
    result: TaskResult
    faster: str | None
    margin: float
    candidate: str | None = None
    ratios: tuple[Estimate, ...] = ()
    better: int = 0
    worse: int = 0
    open: int = 0
    trials_to_settle: int | None = None
    trained: bool = False
    ranked: tuple[Ranked, ...] = ()
    even: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()


def task_answers(compared: ComparedRuns) -> list[TaskAnswer]:
    """Return one for each task that has comparable Cases, in the order in which they came."""
    tasks = dict.fromkeys(one.task for one in compared.judged)
    return [found for task in tasks if (found := _answer(task, compared)) is not None]


def mean_ratio(ratios: Sequence[Estimate]) -> float:
    """Return the geometric mean of the ratios of several Cases."""
    return from_log(fmean(math.log(one.value) for one in ratios))


def turned(ratio: Estimate) -> Estimate:
    """Return the ratio of the other to the one: its ends change places."""
    low, high = ratio.low, ratio.high
    return msgspec.structs.replace(
        ratio, value=1.0 / ratio.value, low=1.0 / high if high else None, high=1.0 / low if low else None
    )


def _answer(task: str, compared: ComparedRuns) -> TaskAnswer | None:
    by_label = {one.label: one for one in compared.participants}
    found: dict[str, list[JudgedFigure]] = {}
    for one in _primaries(compared, task):
        if one.comparison.ratio is not None:
            found.setdefault(one.comparison.candidate.label, []).append(one)
    if not found:
        return None
    baseline = compared.participants[0]
    if task not in compared.with_fastest:
        ((label, own),) = found.items()
        return _of_two(task, baseline, by_label[label], own, compared.margin)
    verdicts: dict[str, set[Judgement]] = {}
    leads: dict[str, tuple[Estimate, ...]] = {}
    for one in compared.with_fastest[task]:
        letter, ratio = by_label[one.comparison.candidate.label].letter, one.comparison.ratio
        verdicts.setdefault(letter, set()).add(one.comparison.verdict)
        leads[letter] = (*leads.get(letter, ()), *((turned(ratio),) if ratio is not None else ()))
    fastest = by_label[compared.with_fastest[task][0].comparison.baseline.label].letter
    each = {by_label[label].letter: _ratios(own) for label, own in found.items()}
    ranked = [
        Ranked(baseline.letter, 1.0, (), leads.get(baseline.letter, ())),
        *(Ranked(one, mean_ratio(own), own, leads.get(one, ())) for one, own in each.items()),
    ]
    ranked.sort(key=lambda one: (one.letter != fastest, -one.mean))
    near = [one.letter for one in ranked[1:] if verdicts.get(one.letter) != {Judgement.WORSE}]
    return TaskAnswer(
        task,
        TaskResult.LEADS if near else TaskResult.FASTER,
        None if near else fastest,
        compared.margin,
        ranked=tuple(ranked),
        even=tuple(one for one in near if Judgement.BETTER not in verdicts.get(one, ())),
        ahead=tuple(one for one in near if Judgement.BETTER in verdicts.get(one, ())),
    )


def _primaries(compared: ComparedRuns, task: str) -> Iterator[JudgedFigure]:
    return (one for one in compared.judged if one.task == task and one.comparison.metric == primary(task))


def _ratios(found: Sequence[JudgedFigure]) -> tuple[Estimate, ...]:
    return tuple(one.comparison.ratio for one in found if one.comparison.ratio is not None)


def _of_two(task: str, a: ComparedInput, b: ComparedInput, found: Sequence[JudgedFigure], margin: float) -> TaskAnswer:
    verdicts = [one.comparison.verdict for one in found]
    better, worse = verdicts.count(Judgement.BETTER), verdicts.count(Judgement.WORSE)
    open_ = sum(verdict not in _DECIDED for verdict in verdicts)
    result = TaskResult.UNCLEAR if open_ else TaskResult.EQUIVALENT
    if better or worse:
        result = TaskResult.DEPENDS if better and worse else TaskResult.FASTER
    faster = (b.letter if better else a.letter) if result == TaskResult.FASTER else None
    needed = [one.comparison.trials_to_settle for one in found if one.comparison.verdict == Judgement.UNCLEAR]
    known = [count for count in needed if count is not None]
    settled = max(known) if known and len(known) == len(needed) else None
    trains = a.trains or b.trains
    return TaskAnswer(task, result, faster, margin, b.letter, _ratios(found), better, worse, open_, settled, trains)
