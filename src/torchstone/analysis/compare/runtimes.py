"""Total runtimes of trainings to an end: as another tool tells them, or as `torchstone train` took."""

from __future__ import annotations

import msgspec

from torchstone.analysis.compare.comparability import sameness
from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.compare.matching import Taken
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.claim import total_runtime_s


class RuntimeRatio(msgspec.Struct, frozen=True):
    """Two trainings of one Case, each taken once: the candidate's total runtime over the baseline's.

    `faster`: the letter of the shorter; None where they are equal, or `epochs` (of either) say that one did more.
    """

    case: str
    baseline: str
    candidate: str
    baseline_s: float
    candidate_s: float
    ratio: float
    faster: str | None
    epochs: tuple[Scalar, Scalar]

    @property
    def same_work(self) -> bool:
        """Whether both trained for as many epochs, as far as is known."""
        one, other = self.epochs
        return one == other or None in self.epochs


def runtime_ratios(compared: ComparedRuns) -> list[RuntimeRatio]:
    """Return one for each candidate and training that has a total runtime on both sides."""
    baseline, found = compared.participants[0], []
    for matched in compared.matched:
        if matched.task != Task.TRAIN or baseline.letter not in matched.sides:
            continue
        for candidate in compared.participants[1:]:
            if candidate.letter in matched.sides:
                pair = [matched.sides[one.letter] for one in (baseline, candidate)]
                ratio = _ratio(matched.label, baseline, candidate, pair[0][-1], pair[1][-1])
                if ratio is not None and sameness(*pair).against is None:
                    found.append(ratio)
    return found


def _ratio(case: str, baseline: ComparedInput, candidate: ComparedInput, a: Taken, b: Taken) -> RuntimeRatio | None:
    one_s, other_s = _total_s(a, baseline), _total_s(b, candidate)
    if not one_s or not other_s:
        return None
    epochs = (_epochs(a), _epochs(b))
    shorter = baseline.letter if one_s < other_s else candidate.letter if other_s < one_s else None
    made = RuntimeRatio(case, baseline.letter, candidate.letter, one_s, other_s, other_s / one_s, shorter, epochs)
    return made if made.same_work else msgspec.structs.replace(made, faster=None)


def _total_s(taken: Taken, one: ComparedInput) -> float | None:
    """Return how long a training to its end took; None where this is none, or only the part after a cut is known."""
    fit = taken.run.head.procedure.fit
    if not taken.trials or (fit is None and not any(trial.facts.total_runtime_s is not None for trial in taken.trials)):
        return None
    if fit is not None and fit.resume:
        metrics = one.trainings.get(taken.run.head.run_id)
        return metrics.total_runtime_minutes * 60.0 if metrics is not None else None
    return total_runtime_s((trial.facts, trial.duration_s) for trial in taken.trials)


def _epochs(taken: Taken) -> Scalar:
    return next((trial.facts.epochs for trial in taken.trials if trial.facts.epochs is not None), None)
