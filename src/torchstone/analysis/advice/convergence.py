"""What the losses of a run say: of learning rate, optimizer, accumulation and precision, all else equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.advice.learning_rates import LearningRates, learning_rates
from torchstone.analysis.advice.loss_curves import AXES, Curves, compared
from torchstone.analysis.advice.optimizers import Optimizers, optimizers
from torchstone.analysis.advice.precisions import PrecisionEffect, precisions
from torchstone.analysis.advice.trainings import Training, beside_each_other
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.axis import Scalar


class Convergence(msgspec.Struct, frozen=True):
    """The trainings of one model on one device that differ in these four axes alone, over the same number of items.

    `where`: the other axes that vary in the run, and their values here; `notes`: what these losses cannot say.
    """

    model: str
    device: str
    data: str
    item: str
    batch_size: Scalar
    where: Mapping[str, Scalar]
    horizon_items: float
    target_loss: float | None
    trainings: tuple[Training, ...]
    learning_rates: tuple[LearningRates, ...]
    optimizers: tuple[Optimizers, ...]
    precisions: tuple[PrecisionEffect, ...]
    notes: tuple[str, ...]


def convergence(run: RunSummary, curves: Curves) -> list[Convergence]:
    """Return a reading of each group of comparable trainings. `curves`: advice.loss_curves."""
    found = []
    groups = compared(run)
    for cases in groups:
        together = beside_each_other(cases, curves)
        if together is None:
            continue
        first, by_id = cases[0], _by_id(cases)
        found.append(
            Convergence(
                model=first.workload.model,
                device=str(first.placement),
                data=first.workload.data,
                item=first.workload.item,
                batch_size=first.configuration.get("batch_size"),
                where=_where(first, [group[0] for group in groups]),
                horizon_items=together.horizon,
                target_loss=together.target,
                trainings=together.each,
                learning_rates=learning_rates(together),
                optimizers=optimizers(together, by_id),
                precisions=precisions(together, by_id),
                notes=tuple(_notes(first)),
            )
        )
    return found


def _where(case: CaseSummary, others: Sequence[CaseSummary]) -> Mapping[str, Scalar]:
    """Return what tells a group from the others, but for its batch size. `others`: a case of each group."""
    alike = [one for one in others if (one.workload, one.placement) == (case.workload, case.placement)]
    names = [name for name in varying_axes(alike) if name not in ("batch_size", *AXES)]
    return {name: case.configuration[name] for name in names if name in case.configuration}


def _by_id(cases: list[CaseSummary]) -> Mapping[str, CaseSummary]:
    return {case.case_id: case for case in cases}


def _notes(case: CaseSummary) -> Iterator[str]:
    if case.configuration.get("feed") == "resident":
        yield (
            "feed=resident repeats 4 batches: this is how fast they are learned by heart; measure again with "
            "--axis feed=loader to see data as a training does"
        )
    elif case.workload.data.partition(":")[0] == "synthetic":
        yield "data synthetic is random: there is nothing to learn in it; name --data"
    yield "every trial has the same seed: another one may change the order of what lies close together"
