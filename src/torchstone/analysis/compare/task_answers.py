"""Which is faster at each task, over all its Cases; the sentence is made where it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from statistics import fmean

import msgspec

from torchstone.analysis.compare.compare import Asked, ComparedRuns, Judged, compare
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.logs import from_log

_DECIDED = (Judgement.BETTER, Judgement.WORSE, Judgement.SAME)


class Standing(StrEnum):
    """How the participants stand."""

    FASTER = "faster"  # `faster` is
    DEPENDS = "depends"  # on the Case
    EQUIVALENT = "equivalent"  # within the margin
    UNCLEAR = "unclear"
    LEADS = "leads"  # the first of `factors`, though `even` or `ahead` of some Cases are as fast


class Answer(msgspec.Struct, frozen=True):
    """The answer for a task. `faster`: the letter of the fastest; None where it is not one, or not known.

    Of two: `candidate` and its `ratios` of throughput to the baseline, one a Case; `better`, `worse` and `open` Cases;
    `trials_to_settle` of each would decide those that are unclear; of a training, `trained`, there is one trial.
    Of several: `factors`, the mean throughput of each relative to the baseline, the fastest first.
    """

    task: str
    standing: Standing
    faster: str | None
    margin: float
    candidate: str | None = None
    ratios: tuple[Estimate, ...] = ()
    better: int = 0
    worse: int = 0
    open: int = 0
    trials_to_settle: int | None = None
    trained: bool = False
    factors: tuple[tuple[str, float], ...] = ()
    even: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()


def answers(compared: ComparedRuns) -> list[Answer]:
    """Return one for each task that has comparable Cases, in the order in which they came."""
    tasks = dict.fromkeys(one.task for one in compared.judged)
    return [found for task in tasks if (found := _answer(task, compared)) is not None]


def _answer(task: str, compared: ComparedRuns) -> Answer | None:
    primaries = [one for one in _primaries(compared, task) if one.comparison.ratio is not None]
    if not primaries:
        return None
    by_label = {one.label: one for one in compared.participants}
    against = [by_label[label] for label in dict.fromkeys(one.comparison.candidate.label for one in primaries)]
    baseline = compared.participants[0]
    if len(against) == 1:
        return _of_two(task, baseline, against[0], primaries, compared.margin)
    mean = {baseline.letter: 0.0}
    for one in against:
        mean[one.letter] = fmean(_log(j) for j in primaries if j.comparison.candidate.label == one.label)
    ranked = sorted([baseline, *against], key=lambda one: -mean[one.letter])
    # The fastest of several by chance is not the fastest: it is compared with each other again, as the baseline.
    again = compare(ranked, Asked(compared.margin))
    verdicts = {
        one.letter: [j.comparison.verdict for j in _primaries(again, task) if j.comparison.candidate.label == one.label]
        for one in ranked[1:]
    }
    near = [letter for letter, found in verdicts.items() if not found or set(found) != {Judgement.WORSE}]
    return Answer(
        task, Standing.LEADS if near else Standing.FASTER, None if near else ranked[0].letter, compared.margin,
        factors=tuple((one.letter, from_log(mean[one.letter])) for one in ranked),
        even=tuple(letter for letter in near if Judgement.BETTER not in verdicts[letter]),
        ahead=tuple(letter for letter in near if Judgement.BETTER in verdicts[letter]),
    )  # fmt: skip


def _primaries(compared: ComparedRuns, task: str) -> Iterator[Judged]:
    return (one for one in compared.judged if one.task == task and one.comparison.metric == primary(task))


def _of_two(task: str, a: ComparedInput, b: ComparedInput, found: Sequence[Judged], margin: float) -> Answer:
    verdicts = [one.comparison.verdict for one in found]
    better, worse = verdicts.count(Judgement.BETTER), verdicts.count(Judgement.WORSE)
    open_ = sum(verdict not in _DECIDED for verdict in verdicts)
    standing = Standing.UNCLEAR if open_ else Standing.EQUIVALENT
    if better or worse:
        standing = Standing.DEPENDS if better and worse else Standing.FASTER
    faster = (b.letter if better else a.letter) if standing == Standing.FASTER else None
    needed = [one.comparison.trials_to_settle for one in found if one.comparison.verdict == Judgement.UNCLEAR]
    known = [count for count in needed if count is not None]
    return Answer(
        task, standing, faster, margin, b.letter, tuple(one.comparison.ratio for one in found if one.comparison.ratio),
        better, worse, open_, max(known) if known and len(known) == len(needed) else None, a.trains or b.trains,
    )  # fmt: skip


def _log(one: Judged) -> float:
    assert one.comparison.ratio is not None
    return math.log(one.comparison.ratio.value)
