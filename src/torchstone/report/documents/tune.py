"""A tune as a Document: what to choose and what it gains, the other choices, why, and the settings to write."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice.choices import Chosen, is_unusable
from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.estimate import Estimate, too_wide
from torchstone.report.document import Facts, Part, Role, Section, Text
from torchstone.report.documents.choices import chosen_parts
from torchstone.report.documents.run_answer import rate_words
from torchstone.report.documents.wording import point_words, scalar_word


def tune_parts(run: RunSummary) -> Iterator[Part]:
    """Yield what a completed tune found, above the tables of its run. Raises ValueError for a run without an answer."""
    answer = run.answer
    if answer is None:
        raise ValueError(f"{run.run_id} has no answer")
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    yield Text(_sentences(answer, rate_words(case)), Role.HEADLINE)
    # Of earlier versions the front may hold probes, whose best is the luckiest of many: it contradicts the final round.
    front = tuple(one for one in answer.pareto if one.trials)
    chosen = Chosen(answer.highest_throughput, answer.best_efficiency, answer.recommended, front)
    work, accelerator = case.workload, case.placement.device != "cpu"
    yield from chosen_parts(chosen, str(work.task), work.item, accelerator=accelerator)
    yield Facts(tuple(_facts(answer)))
    settings = tuple((axis, scalar_word(value)) for axis, value in answer.settings.items())
    yield Section("settings", (Facts(settings),))


def _sentences(answer: TuneResult, rate: str) -> str:
    best = answer.recommended
    settled = "Recommended" if not is_unusable(best) else "Best found, not certain"
    text = f"{settled}: {point_words(best.point)}, {rate}."
    if answer.gain is not None:
        return f"{text} That is {_gain(answer.gain)}."
    return f"{text} These are the present settings." if _is_present(answer) else text


def _is_present(answer: TuneResult) -> bool:
    return answer.present is not None and answer.present.case_id == answer.recommended.case_id


def _facts(answer: TuneResult) -> Iterator[tuple[str, str]]:
    if answer.gain is not None:
        yield "gain", _gain(answer.gain)
    elif _is_present(answer):
        yield "gain", "none: the present settings are the best that was found"
    elif answer.present is None:
        yield "gain", "not known: name the present settings with --present batch_size=…"
    if answer.epoch_time_s is not None:
        yield "epoch", f"{_with_interval(answer.epoch_time_s)} expected"
    yield from (("why" if number == 0 else "", reason) for number, reason in enumerate(answer.why))
    yield "cost", _cost(answer)


def _gain(gain: Estimate) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.value:.3g} times the present settings (one round: no interval)"
    text = units.ratio(gain.value, gain.low, gain.high)
    if text == units.MISSING:
        return f"not known how many times the present settings: {too_wide(gain.trials)}"
    unclear = gain.low <= 1.0 <= gain.high
    rounds = "not significant; more --trials may tell" if unclear else f"{gain.trials} rounds"
    return f"{text} times the present settings ({rounds})"


def _cost(answer: TuneResult) -> str:
    spent = f"{answer.probes} probes, {units.quantity(answer.searched_s, 's')}"
    if not answer.everything_s:
        return f"{spent}; {answer.points} settings"
    share = units.quantity(answer.searched_s / answer.everything_s, "ratio")
    return f"{spent}: {share} of about {units.quantity(answer.everything_s, 's', 2)} for all {answer.points} settings"


def _with_interval(found: Estimate) -> str:
    text = units.quantity(found.value, found.unit)
    ends = units.interval(found.value, found.low, found.high, found.unit)
    return f"{text} [{ends}]" if ends else text
