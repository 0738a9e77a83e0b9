"""Which is faster for training and which for inference: one sentence a task, over all its Cases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, Judged
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core import units
from torchstone.core.schema.comparison import Judgement
from torchstone.core.stats.student import from_log

_FOR = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}
_NAMED = 6  # candidates whose ratio is in the answer: the table has all
_DECIDED = (Judgement.BETTER, Judgement.WORSE, Judgement.SAME)


class Answer(msgspec.Struct, frozen=True):
    """`faster`: the letter of the fastest; None where it is not one, or not known. `words`: the sentence."""

    task: str
    purpose: str
    faster: str | None
    words: str


def answers(compared: ComparedRuns) -> list[Answer]:
    """Return one for each task that has comparable Cases, in the order in which they came."""
    found = []
    for task in dict.fromkeys(one.task for one in compared.judged):
        told = _told(task, compared)
        if told is not None:
            found.append(Answer(task, _FOR.get(task, task), *told))
    return found


def _told(task: str, compared: ComparedRuns) -> tuple[str | None, str] | None:
    by_label = {one.label: one for one in compared.participants}
    baseline = compared.participants[0]
    found: dict[str, list[Judged]] = {}
    for one in _primaries(compared, task):
        if one.comparison.ratio is not None:
            found.setdefault(one.comparison.candidate.label, []).append(one)
    if not found:
        return None
    if task not in compared.with_fastest:
        ((label, own),) = found.items()
        return _of_two(baseline, by_label[label], own, compared.margin)
    verdicts: dict[str, set[Judgement]] = {}
    for one in compared.with_fastest[task]:
        verdicts.setdefault(one.comparison.candidate.label, set()).add(one.comparison.verdict)
    fastest = by_label[compared.with_fastest[task][0].comparison.baseline.label]
    means = {baseline.label: 1.0, **{label: _mean(own) for label, own in found.items()}}
    ranked = sorted(means, key=lambda label: -means[label])
    open_ = [by_label[one] for one in ranked if one != fastest.label and verdicts.get(one) != {Judgement.WORSE}]
    named = [f"{_name(by_label[one])} {_times(found[one])}" for one in ranked if one in found]
    more = f"; {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    times = f"{', '.join(named[:_NAMED])} times as fast as {_name(baseline)}"
    order = f"{times}{_over(next(iter(found.values())))}{more}"
    if not open_:
        return fastest.letter, f"{_name(fastest)} is the fastest; {order}"
    ahead = [_name(one) for one in open_ if Judgement.BETTER in verdicts.get(one.label, ())]
    even = [_name(one) for one in open_ if Judgement.BETTER not in verdicts.get(one.label, ())]
    but = [f"is not significantly different from {', '.join(even)}"] if even else []
    but += [f"is slower than {', '.join(ahead)} in some cases"] if ahead else []
    return None, f"{_name(fastest)} leads, and {' and '.join(but)}; {order}"


def _times(found: Sequence[Judged]) -> str:
    """Return the ratio of one case; of several the geometric mean with the outermost ends of their intervals."""
    ratios = [one.comparison.ratio for one in found if one.comparison.ratio is not None]
    if len(ratios) == 1:
        return units.ratio(ratios[0].value, ratios[0].low, ratios[0].high)
    ends = [end for one in ratios for end in (one.value, one.low, one.high) if end is not None]
    mean, low, high = (units.significant(value, 3) for value in (_mean(found), min(ends), max(ends)))
    return f"{mean} [{low}, {high}]"


def _mean(found: Sequence[Judged]) -> float:
    return from_log(fmean(math.log(one.comparison.ratio.value) for one in found if one.comparison.ratio is not None))


def _over(found: Sequence[Judged]) -> str:
    """Return of how many cases a mean is, and what its brackets are."""
    return f"; means of {len(found)} cases with the outermost ends of their intervals" * (len(found) > 1)


def _primaries(compared: ComparedRuns, task: str) -> Iterator[Judged]:
    return (one for one in compared.judged if one.task == task and one.comparison.metric == primary(task))


def _of_two(a: ComparedInput, b: ComparedInput, found: Sequence[Judged], margin: float) -> tuple[str | None, str]:
    verdicts = [one.comparison.verdict for one in found]
    times = _times(found)
    ratio = f"{_name(b)} is {times} times as fast as {_name(a)}{_over(found)}"
    if times == units.MISSING:
        ratio = f"how {_name(b)} and {_name(a)} differ is not known to ±50 %"
    better, worse = verdicts.count(Judgement.BETTER), verdicts.count(Judgement.WORSE)
    open_ = sum(one not in _DECIDED for one in verdicts)
    rest = f"; {open_} of {len(found)} cases unclear" if open_ and open_ < len(found) else ""
    if better and worse:
        wins = f"{b.letter} in {better}, {a.letter} in {worse} of {len(found)} cases"
        return None, f"it depends: {wins}; {ratio}{rest}"
    if better or worse:
        in_cases = f"; it is {'faster' if better else 'slower'} in {better or worse} of {len(found)} cases"
        return (b if better else a).letter, f"{ratio}{in_cases if len(found) > 1 else ''}{rest}"
    if not open_:
        return None, f"equivalent within {100 * margin:g} %: {ratio}"
    unclear = "" if times == units.MISSING else "unclear: "
    return None, f"{unclear}{ratio}{rest}{_settling(found, trained=a.trains or b.trains)}"


def _settling(found: Sequence[Judged], *, trained: bool) -> str:
    if trained:
        return "; a training is one trial: `torchstone run --trials 5` repeats its step, `torchstone ab` compares code"
    needed = [one.comparison.trials_to_settle for one in found if one.comparison.verdict == Judgement.UNCLEAR]
    known = [count for count in needed if count is not None]
    if known and len(known) == len(needed):
        return f"; about {max(known)} more trials of each needed (80 % power at the observed ratio)"
    return "; `torchstone ab` interleaves and may tell, more trials of these runs do not"


def _name(one: ComparedInput) -> str:
    return one.letter if one.label == one.letter else f"{one.letter} ({one.label})"
