"""What a training says while it runs, a line an epoch; and its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core import units

if TYPE_CHECKING:
    from torchstone.cli._progress import ProgressBar
    from torchstone.storage.training.metrics_log import EpochMetrics
    from torchstone.workflows.run.results import Results
    from torchstone.workflows.train.training import TrainResults


class EpochLines:
    """Says each epoch as it ends, above the bar."""

    def __init__(self, progress: ProgressBar, epochs: int, *, quiet: bool) -> None:
        self._progress, self._epochs, self._quiet = progress, epochs, quiet

    def __call__(self, epoch: EpochMetrics) -> None:
        """Write one line."""
        if self._quiet:
            return
        told = [f"loss {units.significant(epoch.train_loss, 4)}"]
        if epoch.val_loss is not None:
            told.append(f"held-out loss {units.significant(epoch.val_loss, 4)}")
        if epoch.val_accuracy is not None:
            told.append(f"accuracy {units.quantity(epoch.val_accuracy, 'ratio')}")
        told.append(units.quantity(epoch.train_time_s, "s"))
        self._progress.say(f"epoch {epoch.epoch} of {self._epochs}: {', '.join(told)}{', best' * epoch.best}")


def training_json(results: Results, training: TrainResults) -> dict[str, Any]:
    """Return the document of a run, with the training's metrics beside."""
    return {
        **msgspec.to_builtins(results.summary),
        "training": {"folder": str(training.folder), **msgspec.to_builtins(training.metrics or {})},
    }
