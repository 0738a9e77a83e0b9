"""What a training says while it runs, a line an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchstone.core import units

if TYPE_CHECKING:
    from torchstone.cli._progress import ProgressBar
    from torchstone.core.schema.training import EpochMetrics


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
