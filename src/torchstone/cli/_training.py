"""What a training prints: a line an epoch while it runs, and at its end the epochs, the loss, the files."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.analysis.advice.fed import fed_words
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units

if TYPE_CHECKING:
    from torchstone.cli._progress import ProgressBar
    from torchstone.storage.training.metrics_log import EpochMetrics, TrainingMetrics
    from torchstone.workflows.run.results import Results
    from torchstone.workflows.train.training import TrainResults

_BEGUN = {
    "random": " from random weights", "pretrained": " from pretrained weights", "folder": " from the folder's weights",
    "file": " from the file's weights",
}  # fmt: skip
_SHOWN = 20  # epochs in the table: of more, the first, the last and the best


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
            told.append(f"held out {units.significant(epoch.val_loss, 4)}")
        if epoch.val_accuracy is not None:
            told.append(f"accuracy {epoch.val_accuracy:.1%}")
        told.append(units.quantity(epoch.train_time_s, "s"))
        self._progress.say(f"epoch {epoch.epoch} of {self._epochs}: {', '.join(told)}{', best' * epoch.best}")


def document(results: Results, training: TrainResults) -> dict[str, Any]:
    """Return the document of a run, with the training's metrics beside."""
    return {
        **msgspec.to_builtins(results.summary),
        "training": {"folder": str(training.folder), **msgspec.to_builtins(training.metrics or {})},
    }


def print_training_answer(done: TrainResults) -> None:
    """Print in one or two sentences what the training reached."""
    (case,) = done.results.summary.cases
    metrics = done.metrics
    if metrics is None or not metrics.epochs:
        print(plain(f"Not trained: {case.trials[-1].outcome.message if case.trials else 'no trial was taken'}"))
        return
    best = next((e for e in metrics.epochs if e.epoch == metrics.best_epoch), metrics.epochs[-1])
    count, held_out = len(metrics.epochs), best.val_loss is not None
    reached = [f"loss {units.significant(best.val_loss if best.val_loss is not None else best.train_loss, 4)}"]
    if best.val_accuracy is not None:
        reached.insert(0, f"accuracy {best.val_accuracy:.1%}")
    whole_s = units.quantity(metrics.total_runtime_minutes * 60.0, "s")
    ended = "" if metrics.outcome == "ok" else f" It ended {metrics.outcome}: {metrics.message}."
    begun = _BEGUN.get(str(case.workload.fixed.get("weights")), "")
    text = f"Trained {count} epoch{'s' * (count > 1)}{begun} in {whole_s}: "
    text += f"{'held-out ' * held_out}{', '.join(reached)}"
    text += (
        f" (epoch {best.epoch}), {units.significant(best.throughput, 3)} {metrics.item}s/s; one training: no interval."
    )
    print(textwrap.fill(plain(text + ended), terminal_width()))


def print_training(done: TrainResults, folder: Path) -> None:
    """Print what the training came to."""
    (case,) = done.results.summary.cases
    metrics = done.metrics
    print("\n" + plain(f"{case.workload.model} on {case.placement}"))
    for line in fed_words([case]):
        print(plain(f"  {line}"))
    if metrics is None:
        print(plain(f"  not trained: {case.trials[-1].outcome.message if case.trials else 'not taken'}"))
        return
    _print_epochs(metrics)
    if metrics.outcome != "ok":
        print(plain(f"  ended      {metrics.outcome}: {metrics.message}"))
    if metrics.stopped_early is not None:
        print(f"  ended      after {len(metrics.epochs)} epochs: {metrics.stopped_early}")
    _print_time(done, metrics, folder)
    print(f"  folder     {done.folder}")
    if metrics.final_val_accuracy is not None:
        print(f"  judge it   torchstone evaluate {done.folder}")


def _print_epochs(metrics: TrainingMetrics) -> None:
    epochs = list(metrics.epochs)
    if len(epochs) > _SHOWN:
        kept = [*epochs[:5], *epochs[-10:]]
        epochs = [e for e in epochs if e in kept or e.epoch == metrics.best_epoch]
    best = metrics.best_epoch
    show([
        Column("epoch", [f"{e.epoch}{'*' if e.epoch == best else ' '}" for e in epochs]),
        Column("learning\nrate", [units.significant(e.learning_rate, 3) for e in epochs], rank=3),
        Column("loss", [units.significant(e.train_loss, 4) for e in epochs]),
        Column("accuracy", [_share(e.train_accuracy) for e in epochs], rank=1),
        Column("held-out\nloss", [_number(e.val_loss) for e in epochs], rank=1),
        Column("held-out\naccuracy", [_share(e.val_accuracy) for e in epochs], rank=1),
        Column("time", [units.quantity(e.train_time_s, "s") for e in epochs], rank=2),
        Column(f"{metrics.item}s/s", [units.significant(e.throughput, 3) for e in epochs], rank=2),
    ])  # fmt: skip
    if best:
        told = "held-out accuracy" if epochs[0].val_accuracy is not None else "held-out loss"
        print(f"  * best {told if epochs[0].val_loss is not None else 'loss'}")


def _print_time(done: TrainResults, metrics: TrainingMetrics, folder: Path) -> None:
    from torchstone.workflows.tune.verifying import epoch_of

    summary = done.results.summary
    (case,) = summary.cases
    whole_s = units.quantity(metrics.total_runtime_minutes * 60.0, "s")
    print(f"  took       {whole_s} in all, {units.quantity(metrics.avg_epoch_time_s, 's')} of training an epoch")
    epoch = epoch_of(case, done.epochs, summary.machine, folder)
    if epoch is None:
        return
    told = epoch.predicted
    if told is None or epoch.ratio is None:
        print("  predicted  by no tune, and by no run of these settings, in this store")
        return
    expected = told.epoch_s
    ends = units.interval(expected.value, expected.low, expected.high, "s")
    between = f" [{ends}]" if ends else ""
    of, each = (f" of {told.items:,} items", "item for item and ") if told.items else ("", "")
    print(
        f"  predicted  {units.quantity(expected.value, 's')}{between} an epoch{of} by {told.by} {told.run_id}; "
        f"{each}without the first step it took {epoch.ratio:.3f} times that"
    )


def _share(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return units.MISSING if value is None else units.significant(value, 4)
