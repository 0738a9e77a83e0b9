"""The answer of a comparison for a task, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.task_answers import Answer, Standing
from torchstone.core import units
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.logs import from_log

_FOR = {"train": "training", "infer": "inference", "generate": "generation", "load": "loading"}


def purpose(answer: Answer) -> str:
    """Return what a task is for, in a word."""
    return _FOR.get(answer.task, answer.task)


def answer_words(answer: Answer, compared: ComparedRuns) -> str:
    """Return the sentence, without its end."""
    letter = compared.participants[0].letter
    names = {
        one.letter: one.letter if one.label == one.letter else f"{one.letter} ({one.label})"
        for one in compared.participants
    }
    if answer.factors:
        return _of_several(answer, letter, names)
    ratios, cases = _ratio_words(letter, answer.ratios), len(answer.ratios)
    rest = f", {answer.open} of {cases} cases unclear" if 0 < answer.open < cases else ""
    match answer.standing:
        case Standing.DEPENDS:
            candidate = names[answer.candidate or ""]
            wins = f"{candidate} in {answer.better}, {names[letter]} in {answer.worse} of {cases} cases"
            return f"it depends: {wins}; {answer.candidate} has {ratios}"
        case Standing.FASTER:
            in_cases = f" in {answer.better or answer.worse} of {cases} cases" if cases > 1 else ""
            if answer.better:
                return f"{names[answer.candidate or '']}{in_cases}, {ratios}{rest}"
            # A ratio alone would seem to be the baseline's.
            return f"{names[letter]}{in_cases}; {answer.candidate} has {ratios}{rest}"
        case Standing.EQUIVALENT:
            return f"equivalent within {100 * answer.margin:g} %, {ratios}"
        case _:
            return f"unclear, {ratios}{rest}{_settling(answer)}"


def _of_several(answer: Answer, letter: str, names: Mapping[str, str]) -> str:
    order = ", ".join(f"{names[one]} {factor:.3g}×" for one, factor in answer.factors)
    first = names[answer.factors[0][0]]
    if answer.standing == Standing.FASTER:
        return f"{first}; throughput relative to {letter}: {order}"
    even, ahead = (", ".join(names[one] for one in letters) for letters in (answer.even, answer.ahead))
    told = [f"is not significantly different from {even}"] if even else []
    told += [f"is slower than {ahead} in some cases"] if ahead else []
    return f"{first} leads, and {' and '.join(told)}; throughput: {order}"


def _settling(answer: Answer) -> str:
    if answer.trained:
        return "; a training is one trial: `torchstone run --trials 5` repeats its step, `torchstone ab` compares code"
    if answer.trials_to_settle is not None:
        return f"; about {answer.trials_to_settle} more trials of each needed (80 % power at the observed ratio)"
    return "; more trials of these runs do not help: use `torchstone ab`, which interleaves"


def _ratio_words(letter: str, ratios: Sequence[Estimate]) -> str:
    if len(ratios) == 1:
        (one,) = ratios
        low, high = one.low if one.low is not None else one.value, one.high if one.high is not None else one.value
        told = units.ratio(one.value, low, high)
        if told == units.MISSING:
            return "the interval of the ratio is wider than ±50 %"
        if one.is_wide:
            return f"{told} times {letter}'s throughput ({100 * one.level:.4g} % confidence)"
        interval = f"{100 * one.level:.4g} % confidence interval {low:.3g} to {high:.3g}"
        return f"{one.value:.3g} times {letter}'s throughput ({interval})"
    values = [one.value for one in ratios]
    middle = from_log(fmean(map(math.log, values)))
    over = f"{min(values):.3g} to {max(values):.3g} over {len(values)} cases"
    return f"{middle:.3g} times {letter}'s throughput ({over})"
