"""A tune as a Document: what to choose and what it gains, the settings to write, why; and the other choices."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from torchstone.analysis.advice.choices import Chosen, is_unusable
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.estimate import Estimate
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import Command, Facts, Part, Role, Text, paragraphs
from torchstone.report.documents.case_table import chosen_parts
from torchstone.report.documents.run_answer import doubt, point_words, rate_and_quality, scalar_word


def tune_parts(run: RunSummary, answer: TuneResult) -> Iterator[Part]:
    """Yield what a completed tune found, above the tables of its run."""
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    yield Text(_sentences(answer, case), Role.HEADLINE)
    settings = point_words(answer.settings)
    shown = () if settings == point_words(answer.recommended.point) else (("settings", settings),)
    yield Facts((*shown, *_facts(run, answer)))
    if case.workload.is_program:
        from torchstone.execution.program.trial import words_of

        yield Text("run with these settings:")
        yield Command(shlex.join(words_of(case.workload.model, case.configuration)))


def tune_choices(run: RunSummary, answer: TuneResult) -> Iterator[Part]:
    """Yield more reasons, the fastest, the most efficient and the recommended of the settings, and the Pareto front."""
    yield from paragraphs([text(reason) for reason in answer.why[1:]], Role.DETAIL)
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    chosen = Chosen(answer.highest_throughput, answer.best_efficiency, answer.recommended, answer.pareto)
    work, accelerator = case.workload, case.placement.device != "cpu"
    yield from chosen_parts(chosen, str(work.task), work.item, accelerator=accelerator)


def _sentences(answer: TuneResult, case: CaseSummary) -> str:
    best, rate, suspect = answer.recommended, rate_and_quality(case), doubt([case])
    if _is_alone(answer):
        now = ", the present settings" if _is_present(answer) else ""
        one = point_words(best.point)
        told = f"Not decided: of {answer.points} settings only one was run ({one}{now}), {rate}."
        told += suspect
        return f"{told} That is {_gain(answer.gain)}." if answer.gain is not None else told
    settled = "Best found, not certain" if suspect or is_unusable(best) else "Recommended"
    text = f"{settled}: {point_words(best.point)}, {rate}.{suspect}"
    if answer.gain is not None:
        text = f"{text} That is {_gain(answer.gain)}."
    elif _is_present(answer):
        text = f"{text} These are the present settings."
    return text if answer.tried == answer.points else f"{text} {answer.tried} of {answer.points} settings were run."


def _is_present(answer: TuneResult) -> bool:
    return answer.present is not None and answer.present.case_id == answer.recommended.case_id


def _is_alone(answer: TuneResult) -> bool:
    return answer.tried == 1 and answer.points > 1


def _facts(run: RunSummary, answer: TuneResult) -> Iterator[tuple[str, str]]:
    if answer.gain is None and _is_present(answer) and _is_alone(answer):
        yield "gain", "not known: no other setting was run; give more --probes, or more --search-time"
    elif answer.gain is None and _is_present(answer):
        yield "gain", "none: the present settings are the best of those that were run"
    elif answer.gain is None and answer.present is None:
        yield "gain", "not known: name the present settings with --present batch_size=…"
    elif answer.gain is None:
        yield "gain", "not known: the present settings could not be measured"
    if (now := _present(run, answer)) is not None:
        yield "present", now
    if answer.untried:
        values = "; ".join(f"{axis} {', '.join(map(scalar_word, given))}" for axis, given in answer.untried.items())
        yield "not run", f"no step with {values}"
    if answer.epoch_time_s is not None:
        yield "epoch", f"{_with_interval(answer.epoch_time_s)} expected"
    yield from (("why", text(reason)) for reason in answer.why[:1])
    yield "cost", _cost(answer)


def _present(run: RunSummary, answer: TuneResult) -> str | None:
    """Return the present settings, as far as they are others than the recommended."""
    of = {case.case_id: case.configuration for case in run.cases}
    if answer.present is None or answer.present.case_id not in of:
        return None
    now, best = of[answer.present.case_id], of[answer.recommended.case_id]
    return point_words({axis: value for axis, value in now.items() if best.get(axis) != value}) or None


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
