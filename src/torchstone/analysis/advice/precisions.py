"""What another precision does to a training: how much faster, how much memory, and whether the loss is the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.advice.speed import times_as_fast
from torchstone.analysis.advice.trainings import Span, Training, Trainings, alike_but_for
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.convergence import MARGIN, Equivalence, Sameness, of_losses

AXIS = "precision"
_FINEST_FIRST = ("fp32", "tf32", "bf16", "fp16")


class PrecisionEffect(msgspec.Struct, frozen=True):
    """One precision against the finest that was measured, all else equal: seed and order of data too.

    `difference`: of the mean loss over the second half of the steps, as a share of the reference's loss (0.01: 1 %
    higher), with its 90 % interval, which two one-sided tests compare with ±`margin`. `unit`: what was averaged. Ratios
    are times the reference; None where nothing was measured.
    """

    precision: str
    against: str
    where: Mapping[str, Scalar]
    case_id: str
    reference_id: str
    speed_ratio: Span | None
    memory_ratio: float | None
    verdict: Sameness
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float = MARGIN
    unit: str = "blocks of steps of one seed"
    units: int = 0


def precisions(trainings: Trainings, cases: Mapping[str, CaseSummary]) -> tuple[PrecisionEffect, ...]:
    """Return the effect of each precision on each group of trainings that differ in precision alone."""
    groups = alike_but_for((AXIS,), trainings.each)
    return tuple(effect for alike in groups for effect in _effects(alike, trainings.losses, cases))


def _effects(
    alike: Sequence[Training], losses: Mapping[str, Sequence[float]], cases: Mapping[str, CaseSummary]
) -> list[PrecisionEffect]:
    ordered = sorted((one for one in alike if one.point[AXIS] in _FINEST_FIRST), key=_coarseness)
    return [_effect(other, ordered[0], losses, cases) for other in ordered[1:]]


def _coarseness(training: Training) -> int:
    return _FINEST_FIRST.index(str(training.point[AXIS]))


def _effect(
    one: Training, reference: Training, losses: Mapping[str, Sequence[float]], cases: Mapping[str, CaseSummary]
) -> PrecisionEffect:
    case, other = cases[one.case_id], cases[reference.case_id]
    found = of_losses(losses[one.case_id], losses[reference.case_id]) if one.loss_end and reference.loss_end else None
    memory = [c.peak_memory_bytes for c in (case, other)]
    effect = PrecisionEffect(
        precision=str(one.point[AXIS]),
        against=str(reference.point[AXIS]),
        where={axis: value for axis, value in one.point.items() if axis != AXIS},
        case_id=one.case_id,
        reference_id=reference.case_id,
        speed_ratio=times_as_fast(case, other),
        memory_ratio=memory[0] / memory[1] if memory[0] and memory[1] else None,
        verdict=Sameness.UNCLEAR,
    )
    if found is not None:
        return _with_losses(effect, found)
    broke = one.broke and not reference.broke  # it became NaN where the finer one did not
    return msgspec.structs.replace(effect, verdict=Sameness.DIFFERENT) if broke else effect


def _with_losses(effect: PrecisionEffect, found: Equivalence) -> PrecisionEffect:
    level = found.margin / MARGIN if found.margin > 0.0 else 1.0  # the reference's mean loss
    return msgspec.structs.replace(
        effect, verdict=found.verdict, difference=found.difference / level, low=found.low / level,
        high=found.high / level, units=found.units,
    )  # fmt: skip
