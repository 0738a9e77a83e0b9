"""The answer of a stored tune, computed again from the trials in its record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.choices import best_efficiency, choice_of, highest_throughput, pareto
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial, replicates
from torchstone.workflows.tune.answering import gain, ranked_cases, recommended_choice

_ROUNDING = 1e-9  # relative
_NUMBERS = ("value", "low", "high", "trials")  # of an Estimate


def faults(run: Run, summary: RunSummary) -> Iterator[str]:
    """Yield in a line each what the answer of a tune says, and its record does not.

    Checked are what is recommended and what else is named, their gain, settings and every figure; not what the search
    cost.
    """
    answer, spec = run.answer, run.head.tune
    if spec is None or not isinstance(answer, TuneResult):
        if (spec is not None and answer is not None) or isinstance(answer, TuneResult):
            yield "answer: a tune has that of a tune, and no other run"
        return
    cases = {case.case_id: case for case in summary.cases}
    choices = {case_id: choice_of(case, summary.machine, spec.axes) for case_id, case in cases.items()}
    for title, choice in _named(answer):
        if choice.case_id not in choices:
            yield f"answer: {title} is a case that the record does not have ({choice.case_id})"
        else:
            yield from _of_choice(title, choice, choices[choice.case_id])
    rounds: dict[str, list[Trial]] = {}
    for trial in sorted(replicates(run.trials), key=lambda trial: trial.number):
        if trial.outcome.status != Status.INTERRUPTED:
            rounds.setdefault(trial.case_id, []).append(trial)
    ranking = [choices[case_id] for case_id in ranked_cases(rounds, spec)]
    if not ranking:
        yield "answer: no trial of the final round succeeded and met the constraints"
        return
    best = recommended_choice(ranking, spec)
    if answer.recommended.case_id != best.case_id:
        yield f"answer: recommended is {_point(answer.recommended)}, the final round gives {_point(best)}"
        return
    yield from _of_others(answer, ranking)
    yield from _of_gain(answer, rounds, spec)
    if not _alike(answer.epoch_time_s, cases[best.case_id].estimates.get("epoch_time_s")):
        yield "answer: the time of an epoch is not what the final round gives"
    configuration = cases[best.case_id].configuration
    for name, value in answer.settings.items():
        if configuration.get(name) != value:
            yield f"answer: setting {name}={value}, what was measured had {configuration.get(name)}"


def _named(answer: TuneResult) -> Iterator[tuple[str, Choice]]:
    yield "recommended", answer.recommended
    yield "highest throughput", answer.highest_throughput
    for title, choice in (("best efficiency", answer.best_efficiency), ("present settings", answer.present)):
        if choice is not None:
            yield title, choice
    yield from (("Pareto front", choice) for choice in answer.pareto)


def _of_choice(title: str, claimed: Choice, found: Choice) -> Iterator[str]:
    mine, theirs = msgspec.structs.asdict(claimed), msgspec.structs.asdict(found)
    for name, value in mine.items():
        if not _same(value, theirs[name]):
            yield f"answer: {title}, {_point(found)}: {name} {value}, the trials in the record give {theirs[name]}"


def _of_others(answer: TuneResult, ranking: Sequence[Choice]) -> Iterator[str]:
    """Yield what else is named of the final round, and is not what it gives."""
    fastest, efficient = highest_throughput(ranking), best_efficiency(ranking)
    if fastest is not None and answer.highest_throughput.case_id != fastest.case_id:
        yield f"answer: highest throughput is {_point(answer.highest_throughput)}, not {_point(fastest)}"
    named = answer.best_efficiency.case_id if answer.best_efficiency is not None else None
    if named != (efficient.case_id if efficient is not None else None):
        yield "answer: best efficiency is not what the final round gives"
    front = [choice.case_id for choice in answer.pareto]
    if front != [choice.case_id for choice in pareto(ranking)]:
        yield "answer: the Pareto front is not what the final round gives"


def _of_gain(answer: TuneResult, rounds: Mapping[str, list[Trial]], spec: TuneSpec) -> Iterator[str]:
    """Yield what is wrong with the gain over the present settings."""
    best, present = answer.recommended.case_id, answer.present
    against = rounds.get(present.case_id, []) if present is not None else []
    found = gain(rounds[best], against, spec) if against and present is not None and present.case_id != best else None
    if not _alike(answer.gain, found):
        yield f"answer: gain {_words(answer.gain)}, the final round gives {_words(found)}"


def _words(found: Estimate | None) -> str:
    return "none" if found is None else f"{found.value:.6g} [{found.low}, {found.high}]"


def _alike(one: Estimate | None, other: Estimate | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(_same(getattr(one, name), getattr(other, name)) for name in _NUMBERS)


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_ROUNDING)
    return one == other


def _point(choice: Choice) -> str:
    return ", ".join(f"{axis}={value}" for axis, value in choice.point.items())
