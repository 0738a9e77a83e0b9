"""One real epoch beside what a tune, or a run of the same settings, said it would take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import summarize
from torchstone.core.figures import figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.training import Epoch, Prediction
from torchstone.core.schema.trial import Status, Trial
from torchstone.storage.measured import measured_cases
from torchstone.storage.query import Entry, answers, find

_FIGURE = "epoch_time_s"


def epoch_of(trials: Sequence[Trial], epochs: int, prediction: Prediction | None) -> Epoch | None:
    """Return what an epoch of a training took, of so many; None where its trial did not end well."""
    trial = next((t for t in trials if t.outcome.status == Status.OK), None)
    if trial is None:
        return None
    found = figures(trial).values
    first_s, total_s, steps = (found[name] for name in ("first_step_time_s", "total_time_s", "steps"))
    a_step = found["total_items"] / steps
    return Epoch(
        (first_s + total_s) / epochs,
        first_s / epochs,
        int(steps) + 1,
        round(a_step * (steps + 1)),
        total_s / found["total_items"],
        prediction,
    )


def predicted(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    """Return the newest prediction that is stored of this machine.

    Of a tune that recommended these settings for this work, or of a run that measured this very Case.
    """
    found = [one for one in (_by_tune(this, machine, folder), _by_run(this, machine, folder)) if one is not None]
    return max(found, key=lambda one: one.started_utc, default=None)


def _by_tune(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    for told in answers(folder):
        spec, answer = told.head.tune, told.answer
        if spec is None or answer.epoch_time_s is None or told.head.machine.host.hostname != machine.host.hostname:
            continue
        same_work = _work(spec.base) == _work(this)
        same_place = spec.base.placement.canonical() == this.placement.canonical()
        says = all(this.configuration.get(axis) == value for axis, value in answer.settings.items())
        if answer.recommended.case_id == this.case_id or (same_work and same_place and says):
            entry = find(folder, told.head.run_id)
            return _prediction(entry, answer.recommended.case_id, answer.epoch_time_s)
    return None


def _work(case: Case) -> object:
    """Return what a Case works on. Which weights it begins with changes no speed: a tune's are mostly random."""
    fixed = {name: value for name, value in case.workload.fixed.items() if name != "weights"}
    return msgspec.structs.replace(case.workload, fixed=fixed).canonical()


def _by_run(this: Case, machine: Machine, folder: Path) -> Prediction | None:
    """Return that of the newest run that measured this Case; a training to an end predicts nothing."""
    found = [
        one
        for one in measured_cases(folder, this.case_id, (_FIGURE,)).measured
        if one.machine.host.hostname == machine.host.hostname
        and one.procedure.get("fit") is None
        and one.values(_FIGURE)
    ]
    if not found:
        return None
    entry = find(folder, found[-1].run_id)  # oldest first
    cases = {case.case_id: case for case in summarize(entry).cases}
    return _prediction(entry, this.case_id, cases[this.case_id].estimates[_FIGURE])


def _prediction(entry: Entry, case_id: str, epoch_s: Estimate) -> Prediction:
    counts = (t.facts.dataset_items for t in entry.trials if t.case_id == case_id)
    items = next((count for count in counts if isinstance(count, int)), None)
    by = "run" if entry.head.tune is None else "tune"
    return Prediction(epoch_s, by, entry.head.run_id, entry.head.started_utc, items)
