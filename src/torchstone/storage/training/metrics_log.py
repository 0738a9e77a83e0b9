"""training_metrics.json: rewritten after every epoch, so that the metrics so far survive a crash."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Workload
from torchstone.core.schema.codec import decode
from torchstone.core.schema.fit import EpochEnded, Fit
from torchstone.core.schema.training import EpochMetrics, TrainingMetrics
from torchstone.core.schema.trial import Trial
from torchstone.storage.record_reader import read_bounded
from torchstone.storage.training.folder import METRICS, write_json


def read_metrics(path: Path) -> TrainingMetrics:
    """Return the metrics in a file. Raises UsageError, naming it, where it has none."""
    with read_bounded(path) as file:
        data = file.read()
    try:
        return decode(data, TrainingMetrics)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None


def metrics_of(run_id: str, fit: Fit | None) -> TrainingMetrics | None:
    """Return what the folder of a training has of this run; None of other runs, and where the folder is not here.

    Raises UsageError where its file of metrics cannot be read.
    """
    path = Path(fit.folder) / METRICS if fit is not None and fit.folder else None
    if path is None or not os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises for a long name
        return None
    found = read_metrics(path)
    return found if found.run_id == run_id else None


class MetricsLog:
    """Collects the epochs of one training and keeps its file up to date. `before`: those of the part before a cut."""

    def __init__(
        self, folder: Path, run_id: str, workload: Workload, device: str, before: Sequence[EpochMetrics] = ()
    ) -> None:
        self._path = folder / METRICS
        self._run_id, self._workload, self._device = run_id, workload, device
        self._epochs = list(before)
        self._began_s: float | None = None

    @property
    def epochs(self) -> tuple[EpochMetrics, ...]:
        """What is known so far."""
        return tuple(self._epochs)

    def begins(self, at_s: float) -> None:
        """Count moments from here: the clock that all processes share."""
        self._began_s = at_s

    def add(self, ended: EpochEnded) -> EpochMetrics:
        """Add an epoch, in place of one of its number, write the file and return the entry."""
        origin_s = self._began_s if self._began_s is not None else ended.began_s
        told, held = ended.training, ended.validation
        entry = EpochMetrics(
            ended.number, ended.learning_rate, ended.loss, told.accuracy if told else None,
            held.loss if held else None, held.accuracy if held else None, ended.steps, ended.items, ended.train_time_s,
            ended.data_wait_s, ended.validation_time_s, ended.checkpoint_time_s, ended.items / ended.train_time_s,
            ended.batch_times_s, ended.checkpoint, ended.best, ended.began_s - origin_s, ended.ended_s - origin_s,
        )  # fmt: skip
        self._epochs = [*(e for e in self._epochs if e.epoch != entry.epoch), entry]
        write_json(self._path, self._metrics())
        return entry

    def close(self, trial: Trial) -> TrainingMetrics | None:
        """Write how it ended, with what the gauges read; None if no epoch did."""
        if not self._epochs:
            return None
        metrics = msgspec.structs.replace(
            self._metrics(), outcome=str(trial.outcome.status), message=trial.outcome.message,
            stopped_early=trial.facts.stopped_early, telemetry=trial.series,
        )  # fmt: skip
        write_json(self._path, metrics)
        return metrics

    def _metrics(self) -> TrainingMetrics:
        epochs = self._epochs
        trained_s = sum(e.train_time_s for e in epochs)
        whole_s = sum(e.ended_s - e.began_s for e in epochs)
        best = max((e.epoch for e in epochs if e.best), default=0)
        last = epochs[-1]
        return TrainingMetrics(
            self._run_id, self._workload.model, self._workload.data, self._device, self._workload.item, tuple(epochs),
            trained_s / len(epochs), whole_s / 60.0, sum(e.items for e in epochs) / trained_s, last.train_accuracy,
            last.val_accuracy, best,
        )  # fmt: skip
