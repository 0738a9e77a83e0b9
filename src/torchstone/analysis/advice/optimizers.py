"""Optimizers beside each other, each at its best learning rate among those tried: speed, memory, loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.advice.trainings import Span, Training, Trainings, alike_but_for, lowest
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.convergence import Behaviour

AXIS = "optimizer"


class Standing(msgspec.Struct, frozen=True):
    """One optimizer. `learning_rate`: the one of those tried at which its loss ended lowest."""

    optimizer: str
    learning_rate: Scalar
    case_id: str
    behaviour: Behaviour
    throughput: float | None
    memory_bytes: float | None
    loss_end: Span | None


class Optimizers(msgspec.Struct, frozen=True):
    """Otherwise equal trainings, one an optimizer, the lowest loss first. `tuned`: each had several learning rates."""

    where: Mapping[str, Scalar]
    standings: tuple[Standing, ...]
    tuned: bool


def optimizers(trainings: Trainings, cases: Mapping[str, CaseSummary]) -> tuple[Optimizers, ...]:
    """Return a reading of each group of trainings that differ in optimizer and learning rate alone."""
    groups = alike_but_for((AXIS, "learning_rate"), trainings.each)
    return tuple(_reading(alike, cases) for alike in groups if len({one.point.get(AXIS) for one in alike}) > 1)


def _reading(alike: Sequence[Training], cases: Mapping[str, CaseSummary]) -> Optimizers:
    each: dict[str, list[Training]] = {}
    for one in alike:
        each.setdefault(str(one.point[AXIS]), []).append(one)
    standings = [_standing(name, lowest(those) or those[0], cases) for name, those in each.items()]
    standings.sort(key=lambda one: one.loss_end.value if one.loss_end is not None else float("inf"))
    where = {axis: value for axis, value in alike[0].point.items() if axis not in (AXIS, "learning_rate")}
    return Optimizers(where, tuple(standings), all(len(those) > 1 for those in each.values()))


def _standing(name: str, best: Training, cases: Mapping[str, CaseSummary]) -> Standing:
    case = cases[best.case_id]
    speed = case.estimates.get("throughput")
    return Standing(
        name, case.configuration.get("learning_rate"), best.case_id, best.behaviour,
        speed.value if speed is not None else None, case.peak_memory_bytes, best.loss_end,
    )  # fmt: skip
