"""The answer of a comparison for a task, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.task_answers import TaskAnswer, TaskResult, mean_ratio
from torchstone.core import units
from torchstone.core.schema.estimate import Estimate

_FOR = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}
_NAMED = 6  # candidates whose ratio is in the answer: the table has all


def purpose(answer: TaskAnswer) -> str:
    """Return what a task is for, in a word."""
    return _FOR.get(answer.task, answer.task)


def answer_words(answer: TaskAnswer, compared: ComparedRuns) -> str:
    """Return the sentence, without its end."""
    letter = compared.participants[0].letter
    names = {
        one.letter: one.letter if one.label == one.letter else f"{one.letter} ({one.label})"
        for one in compared.participants
    }
    if answer.ranked:
        return _of_several(answer, letter, names)
    times, cases = _times(answer.ratios), len(answer.ratios)
    b = names[answer.candidate or ""]
    ratio = f"{b} is {times} times as fast as {names[letter]}{_over(answer.ratios)}"
    if times == units.MISSING:
        ratio = f"how {b} and {names[letter]} differ is not known to ±50 %"
    rest = f"; {answer.open} of {cases} cases unclear" if 0 < answer.open < cases else ""
    match answer.standing:
        case TaskResult.DEPENDS:
            wins = f"{answer.candidate} in {answer.better}, {letter} in {answer.worse} of {cases} cases"
            return f"it depends: {wins}; {ratio}{rest}"
        case TaskResult.FASTER:
            how, count = ("faster", answer.better) if answer.better else ("slower", answer.worse)
            in_cases = f"; it is {how} in {count} of {cases} cases" if cases > 1 else ""
            return f"{ratio}{in_cases}{rest}"
        case TaskResult.EQUIVALENT:
            return f"equivalent within {100 * answer.margin:g} %: {ratio}"
        case _:
            unclear = "" if times == units.MISSING else "unclear: "
            return f"{unclear}{ratio}{rest}{_settling(answer)}"


def _of_several(answer: TaskAnswer, letter: str, names: Mapping[str, str]) -> str:
    candidates = [one for one in answer.ranked if one.ratios]
    named = [f"{names[one.letter]} {_times(one.ratios)}" for one in candidates]
    more = f"; {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    times = f"{', '.join(named[:_NAMED])} times as fast as {names[letter]}"
    order = f"{times}{_over(candidates[0].ratios)}{more}"
    first = names[answer.ranked[0].letter]
    if answer.standing == TaskResult.FASTER:
        return f"{first} is the fastest; {order}"
    even, ahead = (", ".join(names[one] for one in letters) for letters in (answer.even, answer.ahead))
    but = [f"is not significantly different from {even}"] if even else []
    but += [f"is slower than {ahead} in some cases"] if ahead else []
    return f"{first} leads, and {' and '.join(but)}; {order}"


def _times(ratios: Sequence[Estimate]) -> str:
    """Return the ratio of one case; of several the geometric mean with the outermost ends of their intervals."""
    if len(ratios) == 1:
        return units.ratio(ratios[0].value, ratios[0].low, ratios[0].high)
    ends = [end for one in ratios for end in (one.value, one.low, one.high) if end is not None]
    mean, low, high = (units.significant(value, 3) for value in (mean_ratio(ratios), min(ends), max(ends)))
    return f"{mean} [{low}, {high}]"


def _over(ratios: Sequence[Estimate]) -> str:
    """Return of how many cases a mean is, and what its brackets are."""
    return f"; means of {len(ratios)} cases with the outermost ends of their intervals" * (len(ratios) > 1)


def _settling(answer: TaskAnswer) -> str:
    if answer.trained:
        return "; a training is one trial: `torchstone run --trials 5` repeats its step, `torchstone ab` compares code"
    if answer.trials_to_settle is not None:
        return f"; about {answer.trials_to_settle} more trials of each needed (80 % power at the observed ratio)"
    return "; `torchstone ab` interleaves and may tell, more trials of these runs do not"
