"""Whether a run that was measured again is what was recorded: equivalent, different, or inconclusive."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, ComparisonRequest, JudgedFigure, compare
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, replicates


class Equivalence(StrEnum):
    """Whether what was measured again is what was recorded."""

    EQUIVALENT = "equivalent"  # every case, within the margin
    DIFFERENT = "different"  # a case is significantly faster or slower
    INCONCLUSIVE = "inconclusive"


class Reproduced(msgspec.Struct, frozen=True):
    """The answer, and the comparison behind it: the recorded run is its baseline.

    `unmeasured`: recorded Cases that have no figure here.
    """

    answer: Equivalence
    compared: ComparedRuns
    judged: tuple[JudgedFigure, ...]  # the figure that the answer is of, a Case each
    unmeasured: int = 0


def reproduced(recorded: Run, again: Run, margin: float) -> Reproduced:
    """Compare a run that was measured again with the recorded one. Raises UsageError where no Case is in both."""
    sides = [
        ComparedInput("A", "recorded", recorded.head.run_id, (recorded,)),
        ComparedInput("B", "measured here", again.head.run_id, (again,)),
    ]
    compared = compare(sides, ComparisonRequest(margin))
    measured = {trial.case_id for trial in replicates(recorded.trials) if trial.outcome.status == Status.OK}
    primaries = [one for one in compared.judged if one.comparison.metric == primary(one.task)]
    judged = tuple(one for one in primaries if one.comparison.baseline.case_id in measured)
    verdicts = {one.comparison.verdict for one in judged}
    if verdicts & {Judgement.BETTER, Judgement.WORSE}:
        return Reproduced(Equivalence.DIFFERENT, compared, judged)
    lost = len(measured - {one.comparison.baseline.case_id for one in judged})
    answer = Equivalence.EQUIVALENT if verdicts == {Judgement.SAME} and not lost else Equivalence.INCONCLUSIVE
    return Reproduced(answer, compared, judged, lost)
