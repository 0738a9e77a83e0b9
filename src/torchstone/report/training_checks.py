"""The epochs of a training, as a report carries them, beside what its record knows of them: number and accuracies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.reached import EPOCHS, HELD_OUT, TRAIN
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Training, TrainingMetrics, without_steps
from torchstone.report.carried import training_name
from torchstone.report.page_checks import Told
from torchstone.storage.training.folder import METRICS


def training_of(files: Mapping[str, bytes], run: Run, told: Told) -> TrainingMetrics | None:
    """Return the epochs of a training that a bundle carries; None of other runs, and where it carries none.

    Says which of them are not those that the record has: their number, which was best, and the last accuracies.
    """
    name = training_name(run.head.run_id)
    if run.head.procedure.fit is None or name not in files:
        return None
    told.seen.add(name)
    try:
        found: TrainingMetrics = decode(files[name], TrainingMetrics)
    except UsageError as fault:
        told.wrong(f"{name}: {fault}")
        return None
    if found.run_id != run.head.run_id:
        told.wrong(f"{name}: the epochs of run {found.run_id}")
        return None
    facts = next((trial.facts for trial in reversed(run.trials) if EPOCHS in trial.facts), {})
    last = {TRAIN: found.final_train_accuracy, HELD_OUT: found.final_val_accuracy}
    for fact, value in {EPOCHS: len(found.epochs), "best_epoch": found.best_epoch, **last}.items():
        if fact in facts and facts[fact] != value:
            told.wrong(f"{name}: {fact} {value}, the record has {facts[fact]}")
    recorded = run.answer.metrics if isinstance(run.answer, Training) else None
    if recorded is None:
        told.wrong(f"{name}: the record has no epochs")
    elif without_steps(found) != recorded:
        told.wrong(f"{name}: its epochs are not those in the record")
    told.leave(name, "its single steps and gauges are as claimed; the record has the epochs")
    return found


def placed(summary: RunSummary, training: TrainingMetrics | None, folder: Path) -> RunSummary:
    """Return a summary whose training lies in a folder of ours: the one that a stranger's record names is not read."""
    fit = summary.procedure.fit
    if fit is None:
        return summary
    if training is not None:
        folder.mkdir()
        (folder / METRICS).write_bytes(encode(training))
    here = msgspec.structs.replace(fit, folder=str(folder) if training is not None else "")
    procedure = msgspec.structs.replace(summary.procedure, fit=here)
    return msgspec.structs.replace(summary, procedure=procedure)
