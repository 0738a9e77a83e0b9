"""One real epoch beside what a tune said it would take."""

from __future__ import annotations

from pathlib import Path

import msgspec

from torchstone.store.answers import Answered, answers
from torchstone.summary import CaseSummary
from torchstone.terms.case import Case
from torchstone.terms.estimate import Estimate
from torchstone.terms.machine import Machine
from torchstone.terms.trial import Status


class Epoch(msgspec.Struct, frozen=True):
    """What one trained Case measured, in seconds an epoch, beside what the tune `run_id` predicted, if one did.

    `first_s` is the share of the first step of all (loader processes start in it, kernels are chosen and compiled),
    spread over the epochs. It is part of `measured_s`, and none of what a tune predicts: that is of steady steps.
    """

    measured_s: float
    first_s: float
    steps: int
    items: int
    predicted: Estimate | None = None
    run_id: str | None = None

    @property
    def ratio(self) -> float | None:
        """Return steady measured time over predicted time."""
        return (self.measured_s - self.first_s) / self.predicted.value if self.predicted is not None else None


def epoch_of(case: CaseSummary, epochs: int, machine: Machine, folder: Path) -> Epoch | None:
    """Return the epoch that a Case of a training took; None where its trial did not end well."""
    trial = next((t for t in case.trials if t.outcome.status == Status.OK), None)
    if trial is None:
        return None
    figures = trial.figures.values
    first_s, total_s, steps = (figures[name] for name in ("first_step_time_s", "total_time_s", "steps"))
    a_step = figures["total_items"] / steps
    told = predicted(case, machine, folder)
    return Epoch(
        (first_s + total_s) / epochs, first_s / epochs, int(steps) + 1, round(a_step * (steps + 1)),
        told.answer.epoch_time_s if told is not None else None, told.head.run_id if told is not None else None,
    )  # fmt: skip


def predicted(case: CaseSummary, machine: Machine, folder: Path) -> Answered | None:
    """Return the newest tune on this machine that recommended these settings for this work, with an epoch's time."""
    this = Case(case.workload, case.configuration, case.placement)
    for told in answers(folder):
        quest, answer = told.head.quest, told.answer
        if quest is None or answer.epoch_time_s is None or told.head.machine.host.hostname != machine.host.hostname:
            continue
        same_work = _work(quest.base) == _work(this)
        same_place = quest.base.placement.canonical() == this.placement.canonical()
        says = all(this.configuration.get(axis) == value for axis, value in answer.settings.items())
        if answer.recommended.case_id == this.case_id or (same_work and same_place and says):
            return told
    return None


def _work(case: Case) -> object:
    """Return what a Case works on. Which weights it begins with changes no speed: a tune's are mostly random."""
    fixed = {name: value for name, value in case.workload.fixed.items() if name != "weights"}
    return msgspec.structs.replace(case.workload, fixed=fixed).canonical()
