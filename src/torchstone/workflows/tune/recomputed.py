"""The answer of a stored tune, computed again from the trials in its record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial, replicates
from torchstone.workflows.tune.answering import best_of
from torchstone.workflows.tune.final_round import gain, ranked

_ROUNDING = 1e-9  # relative


def faults(run: Run, summary: RunSummary) -> Iterator[str]:
    """Yield in a line each what the answer of a tune says, and its record does not.

    Checked are what is recommended, its gain, its settings, and every figure of each configuration that is named; not
    what the search cost.
    """
    answer, quest = run.answer, run.head.quest
    if answer is None or quest is None:
        return
    cases = {case.case_id: case for case in summary.cases}
    choices = {case_id: choice_of(case, summary.machine, quest.axes) for case_id, case in cases.items()}
    for title, choice in _named(answer):
        if choice.case_id not in choices:
            yield f"answer: {title} is a case that the record does not have ({choice.case_id})"
        else:
            yield from _of_choice(title, choice, choices[choice.case_id])
    rounds: dict[str, list[Trial]] = {}
    for trial in sorted(replicates(run.trials), key=lambda trial: trial.number):
        if trial.outcome.status != Status.INTERRUPTED:
            rounds.setdefault(trial.case_id, []).append(trial)
    ranking = [choices[case_id] for case_id in ranked(rounds, quest)]
    if not ranking:
        yield "answer: no trial of the final round succeeded and met the constraints"
        return
    best = best_of(ranking, quest)
    if answer.recommended.case_id != best.case_id:
        yield f"answer: recommended is {_point(answer.recommended)}, the final round gives {_point(best)}"
        return
    yield from _of_gain(answer, rounds, quest)
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


def _of_gain(answer: TuneResult, rounds: Mapping[str, list[Trial]], quest: TuneSpec) -> Iterator[str]:
    """Yield what is wrong with the gain over the present settings."""
    best, present = answer.recommended.case_id, answer.present
    against = rounds.get(present.case_id, []) if present is not None else []
    found = gain(rounds[best], against, quest) if against and present is not None and present.case_id != best else None
    claimed = answer.gain
    if claimed is None or found is None:
        if claimed is not found:
            yield f"answer: {'no gain' if claimed is None else 'a gain'} is claimed, the final round gives another"
        return
    if not all(_same(getattr(claimed, name), getattr(found, name)) for name in ("value", "low", "high", "trials")):
        yield f"answer: gain {_words(claimed)}, the final round gives {_words(found)}"


def _words(found: Estimate) -> str:
    return f"{found.value:.6g} [{found.low}, {found.high}]"


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_ROUNDING)
    return one == other


def _point(choice: Choice) -> str:
    return ", ".join(f"{axis}={value}" for axis, value in choice.point.items())
