"""A tune as a Document: what to choose and what it gains, the settings to write, why; and the other choices."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from torchstone.analysis.advice.choices import Chosen, is_unusable
from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary, all_in_doubt
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.quality import is_as_good
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.axis import EAGER, variant_name
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.quality import QualityLoss
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import CommandLine, Fields, Part, Role, Text, paragraphs
from torchstone.report.documents.case_table import chosen_parts
from torchstone.report.documents.run_answer import (
    doubt,
    loss_words,
    machine_doubt,
    not_as_good,
    point_words,
    quality_words,
    rate_and_quality,
    scalar_word,
)


def tune_parts(run: RunSummary, answer: TuneResult) -> Iterator[Part]:
    """Yield what a completed tune found, above the tables of its run; of measurements in doubt nothing is chosen."""
    if doubtful := all_in_doubt(run.cases):
        unknown = f"Which settings are best is not known{machine_doubt(doubtful)}.{doubt(doubtful)}"
        yield Text(f"{unknown}{_how_many(answer)}", Role.HEADLINE)
        yield Fields((("cost", _cost(answer)),))
        return
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    present_id = answer.present.case_id if answer.present is not None else None
    now = next((case for case in run.cases if case.case_id == present_id), None)
    in_short = _is_variant(case) and now is not None and answer.gain is not None and not _is_alone(answer)
    settings = point_words(answer.settings)
    shown = () if settings == point_words(answer.recommended.point) else (("settings", settings),)
    if in_short and now is not None and answer.gain is not None:
        yield Text(_in_short(answer, answer.gain, case, now), Role.HEADLINE)
    else:
        yield Text(_sentences(answer, case), Role.HEADLINE)
    if len({variant_name(one.configuration) for one in run.cases}) > 1:
        lesser = [one for one in run.cases if not is_as_good(one.quality)]
        axes = [name for name in varying_axes(run.cases) if len({one.configuration.get(name) for one in run.cases}) > 1]
        if told := not_as_good(lesser, axes):
            yield Text(told.strip())
    yield Fields((*shown, *_facts(run, answer)))
    if case.workload.task == Task.INFER and not case.workload.is_program:
        yield Text("write this model as a file that loads without torchstone:")
        yield CommandLine(f"torchstone show {run.run_id} --save-model model")
    if case.workload.is_program:
        from torchstone.execution.program.process import words_of

        yield Text("run with these settings:")
        yield CommandLine(shlex.join(words_of(case.workload.model, case.configuration)))


def tune_choices(run: RunSummary, answer: TuneResult) -> Iterator[Part]:
    """Yield more reasons, the fastest, the most efficient and the recommended of the settings, and the Pareto front."""
    if answer.untried:
        values = "; ".join(f"{axis} {', '.join(map(scalar_word, given))}" for axis, given in answer.untried.items())
        yield Text(f"no step was run with {values}")
    if all_in_doubt(run.cases):
        return
    yield from paragraphs([text(reason) for reason in answer.why[1:]], Role.DETAIL)
    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    chosen = Chosen(answer.highest_throughput, answer.best_efficiency, answer.recommended, answer.pareto)
    work, accelerator = case.workload, case.placement.device != "cpu"
    yield from chosen_parts(chosen, str(work.task), work.item, accelerator=accelerator)


def _how_many(answer: TuneResult) -> str:
    return "" if answer.tried == answer.points else f" {answer.tried} of {answer.points} settings were run."


def _is_variant(case: CaseSummary) -> bool:
    return variant_name({**case.configuration, "precision": "fp32"}) != EAGER


_FASTER = ("throughput", "latency", "efficiency")  # objectives whose gain is one of speed
_WEIGHT_BYTES = 4  # of a number in fp32


def _in_short(answer: TuneResult, gain: Estimate, case: CaseSummary, now: CaseSummary) -> str:
    """Return "openvino int8-dynamic: 3.1 [2.9, 3.3] times as fast as now, …, 41 MB instead of 255 MB"."""
    others = {
        axis: value for axis, value in answer.recommended.point.items() if axis not in ("runtime", "quantization")
    }
    is_speed = isinstance(answer.objective, msgspec.UnsetType) or answer.objective in _FASTER
    better = "as fast as now" if is_speed else f"as good as now by {answer.objective}"
    times = _times(gain)
    told = [f"{times} times {better}" if times is not None else _gain(gain), _loss(case.quality)]
    if times is not None and gain.low is not None and gain.high is not None and gain.low <= 1.0 <= gain.high:
        told[0] = f"{told[0]} (not significant; more --trials may tell)"
    sizes = [_size(case), _size(now)]
    told += [f"{sizes[0]} instead of {sizes[1]}"] if None not in sizes else []
    suspect = doubt([case])
    settled = "Best found, not certain" if suspect or is_unusable(answer.recommended) else "Recommended"
    point = f", {point_words(others)}" if others else ""
    return f"{settled}: {variant_name(case.configuration)}{point}: {', '.join(told)}.{suspect}{_how_many(answer)}"


def _times(gain: Estimate) -> str | None:
    if gain.low is None or gain.high is None:
        return f"{gain.value:.3g}"
    text = units.ratio(gain.value, gain.low, gain.high)
    return None if text == units.MISSING else text


def _loss(quality: QualityLoss | None) -> str:
    return "the same outputs" if quality is None else loss_words(quality) or quality_words(quality)


def _size(case: CaseSummary) -> str | None:
    """Return the size of what is stored of a model: of its runtime's files, or of eager mode's weights."""
    exported = case.estimates.get("exported_bytes")
    numbers = next((n for trial in case.trials if (n := trial.facts.parameters) is not None), None)
    size = exported.value if exported is not None else None if numbers is None else float(_WEIGHT_BYTES * numbers)
    return None if size is None else units.quantity(size, "bytes")


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
    return f"{text}{_how_many(answer)}"


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
