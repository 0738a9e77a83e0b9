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
from torchstone.core.stats.logs import from_log

_FOR = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}
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
    primaries = [one for one in _primaries(compared, task) if one.comparison.ratio is not None]
    if not primaries:
        return None
    by_label = {one.label: one for one in compared.participants}
    baseline = compared.participants[0]
    if task not in compared.with_fastest:
        return _of_two(baseline, by_label[primaries[0].comparison.candidate.label], primaries, compared.margin)
    verdicts: dict[str, set[Judgement]] = {}
    for one in compared.with_fastest[task]:
        verdicts.setdefault(one.comparison.candidate.label, set()).add(one.comparison.verdict)
    fastest = by_label[compared.with_fastest[task][0].comparison.baseline.label]
    logs: dict[str, list[float]] = {baseline.label: [0.0]}
    for one in primaries:
        logs.setdefault(one.comparison.candidate.label, []).append(_log(one))
    ranked = sorted(logs, key=lambda label: -fmean(logs[label]))
    open_ = [label for label in ranked if label != fastest.label and verdicts.get(label) != {Judgement.WORSE}]
    order = ", ".join(f"{_name(by_label[label])} {from_log(fmean(logs[label])):.3g}×" for label in ranked)
    if open_:
        ahead = [_name(by_label[one]) for one in open_ if Judgement.BETTER in verdicts.get(one, ())]
        even = [_name(by_label[one]) for one in open_ if Judgement.BETTER not in verdicts.get(one, ())]
        told = [f"is not significantly different from {', '.join(even)}"] if even else []
        told += [f"is slower than {', '.join(ahead)} in some cases"] if ahead else []
        return None, f"{_name(fastest)} leads, and {' and '.join(told)}; throughput: {order}"
    return fastest.letter, f"{_name(fastest)}; throughput relative to {baseline.letter}: {order}"


def _primaries(compared: ComparedRuns, task: str) -> Iterator[Judged]:
    return (one for one in compared.judged if one.task == task and one.comparison.metric == primary(task))


def _of_two(a: ComparedInput, b: ComparedInput, found: Sequence[Judged], margin: float) -> tuple[str | None, str]:
    verdicts = [one.comparison.verdict for one in found]
    ratios = _ratio_words(a, found)
    decided = [v for v in verdicts if v in _DECIDED]
    better, worse = verdicts.count(Judgement.BETTER), verdicts.count(Judgement.WORSE)
    if better and worse:
        wins = f"{_name(b)} in {better}, {_name(a)} in {worse} of {len(found)} cases"
        return None, f"it depends: {wins}; {b.letter} has {ratios}"
    open_cases = len(found) - len(decided)
    rest = f", {open_cases} of {len(found)} cases unclear" if open_cases and decided else ""
    if better or worse:
        in_cases = f" in {better or worse} of {len(found)} cases" if len(found) > 1 else ""
        if better:
            return b.letter, f"{_name(b)}{in_cases}, {ratios}{rest}"
        return a.letter, f"{_name(a)}{in_cases}; {b.letter} has {ratios}{rest}"  # a ratio alone would seem to be A's
    if not open_cases:
        return None, f"equivalent within {100 * margin:g} %, {ratios}"
    return None, f"unclear, {ratios}{rest}{_settling(found, trained=a.trains or b.trains)}"


def _settling(found: Sequence[Judged], *, trained: bool) -> str:
    if trained:
        return "; a training is one trial: `torchstone run --trials 5` repeats its step, `torchstone ab` compares code"
    needed = [one.comparison.trials_to_settle for one in found if one.comparison.verdict == Judgement.UNCLEAR]
    known = [count for count in needed if count is not None]
    if known and len(known) == len(needed):
        return f"; about {max(known)} more trials of each needed (80 % power at the observed ratio)"
    return "; more trials of these runs do not help: use `torchstone ab`, which interleaves"


def _ratio_words(a: ComparedInput, found: Sequence[Judged]) -> str:
    ratios = [one.comparison.ratio for one in found if one.comparison.ratio is not None]
    if len(ratios) == 1:
        (one,) = ratios
        low, high = one.low if one.low is not None else one.value, one.high if one.high is not None else one.value
        told = units.ratio(one.value, low, high)
        if told == units.MISSING:
            return "the interval of the ratio is wider than ±50 %"
        if one.is_wide:
            return f"{told} times {a.letter}'s throughput ({100 * one.level:.4g} % confidence)"
        interval = f"{100 * one.level:.4g} % confidence interval {low:.3g} to {high:.3g}"
        return f"{one.value:.3g} times {a.letter}'s throughput ({interval})"
    values = [one.value for one in ratios]
    middle = from_log(fmean(map(math.log, values)))
    over = f"{min(values):.3g} to {max(values):.3g} over {len(values)} cases"
    return f"{middle:.3g} times {a.letter}'s throughput ({over})"


def _log(one: Judged) -> float:
    assert one.comparison.ratio is not None
    return math.log(one.comparison.ratio.value)


def _name(one: ComparedInput) -> str:
    return one.letter if one.label == one.letter else f"{one.letter} ({one.label})"
