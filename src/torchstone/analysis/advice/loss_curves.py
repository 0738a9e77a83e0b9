"""Which trainings of a run can be compared by their losses, and those losses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import msgspec

from torchstone.analysis.advice.grouping import equal_but_for, groups
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import loss_curve, raw
from torchstone.core.schema.case import Task
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial, estimation_trials
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import RecordPart

METRICS = frozenset(("loss", "items", "step_time_s"))  # what a Curve is made of
AXES = ("learning_rate", "optimizer", "grad_accumulation", "precision")  # whose effect on the loss is asked for


class Curve(msgspec.Struct, frozen=True):
    """The losses of the first steps of one trial, in order, and how many items a step worked on."""

    losses: tuple[float, ...]
    items: float


Curves = Mapping[str, tuple[Curve, ...]]  # by case_id: one a trial; all trials of a Case repeat one training


def compared(run: RunSummary) -> list[list[CaseSummary]]:
    """Return the trainings that differ in AXES alone, together: two or more."""
    trained = [group for group in groups(run.cases) if group[0].workload.task == Task.TRAIN]
    return [alike for group in trained for alike in equal_but_for(AXES, group) if len(alike) > 1]


def read_curves(run: RunSummary) -> Curves:
    """Return the losses of a stored run where there is something to compare, else nothing: its record is not read.

    Raises UsageError if the record cannot be read.
    """
    cases = compared_cases(run)
    return curves_of(read_run(Path(run.record), RecordPart(frozenset(), cases, METRICS))) if cases else {}


def compared_cases(run: RunSummary) -> frozenset[str]:
    """Return the case_ids of all trainings that can be compared."""
    return frozenset(case.case_id for group in compared(run) for case in group)


def curves_of(run: Run) -> Curves:
    """Return the losses of every Case that has some, of failed trials too: a loss that became NaN is one of them."""
    found: dict[str, list[Curve]] = {}
    taken: dict[str, list[Trial]] = {case.case_id: [] for case in run.head.plan.cases}
    for trial in run.trials:  # in one pass: an imported run may have 100,000
        taken.setdefault(trial.case_id, []).append(trial)
    for case_id, trials in taken.items():
        for trial in estimation_trials(trials):
            losses, items = loss_curve(trial), raw(trial, "items")
            if losses and items and sum(items) > 0.0:
                found.setdefault(case_id, []).append(Curve(losses, fmean(items)))
    return {case_id: tuple(curves) for case_id, curves in found.items()}
