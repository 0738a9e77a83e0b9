"""A training that has ended as a Document: what it reached, its epochs, what it took beside what was predicted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from torchstone.analysis.advice.feeding import fed_words
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.training import Epoch, EpochMetrics, Training, TrainingMetrics
from torchstone.report.document import Column, Command, Facts, Part, Role, Table, Text, paragraphs
from torchstone.report.documents.run_answer import rate_of

_BEGUN = {
    "random": " from random weights", "pretrained": " from pretrained weights", "folder": " from the folder's weights",
    "file": " from the file's weights",
}  # fmt: skip
_SHOWN = 20  # epochs in the table: of more, the first, the last and the best
_FIRST, _LAST = 5, 10


def training_parts(run: RunSummary, training: Training) -> Iterator[Part]:
    """Yield what a training came to."""
    (case,), metrics = run.cases, training.metrics
    yield Text(_answer(case, metrics), Role.HEADLINE)
    yield Text(f"{case.workload.model} on {case.placement}")
    yield from paragraphs(fed_words([case]), Role.DETAIL)
    if metrics is None:
        return
    if metrics.epochs:
        yield Table(tuple(_columns(metrics)))
        if metrics.best_epoch:
            yield Text(f"best epoch: {metrics.best_epoch}, by {_judged_by(metrics.epochs[0])}")
    yield Facts((*_ended(metrics), *_time(metrics, training.epoch), ("folder", training.folder)))
    if metrics.final_val_accuracy is not None:
        yield Text("evaluate it:")
        yield Command(f"torchstone evaluate {shlex.quote(training.folder)}")


def _answer(case: CaseSummary, metrics: TrainingMetrics | None) -> str:
    """Return in one or two sentences what the training reached."""
    if metrics is None or not metrics.epochs:
        return f"Not trained: {case.trials[-1].outcome.message if case.trials else 'no trial was taken'}"
    best = next((e for e in metrics.epochs if e.epoch == metrics.best_epoch), metrics.epochs[-1])
    count, held_out = len(metrics.epochs), best.val_loss is not None
    reached = [f"loss {units.significant(best.val_loss if best.val_loss is not None else best.train_loss, 4)}"]
    if best.val_accuracy is not None:
        reached.insert(0, f"accuracy {_share(best.val_accuracy)}")
    begun = _BEGUN.get(str(case.workload.fixed.get("weights")), "")
    measured = rate_of(case)  # which every other page has: of the whole training, not of its best epoch
    rate = f"{units.significant(measured.value if measured else best.throughput, 3)} {metrics.item}s/s"
    text = f"Trained {count} epoch{'s' * (count > 1)}{begun} in {_whole_time(metrics)}: "
    text += f"{'held-out ' * held_out}{', '.join(reached)} (epoch {best.epoch}), {rate}; one training: no interval."
    return text if metrics.outcome == "ok" else f"{text} It ended {metrics.outcome}: {metrics.message}."


def _columns(metrics: TrainingMetrics) -> Iterator[Column]:
    epochs = _shown(metrics)
    best = metrics.best_epoch
    yield Column("epoch", tuple(str(e.epoch) for e in epochs))
    yield Column("best", tuple("*" if e.epoch == best else "" for e in epochs), 1)
    yield Column("learning rate", tuple(units.significant(e.learning_rate, 3) for e in epochs), 3)
    yield Column("loss", tuple(units.significant(e.train_loss, 4) for e in epochs))
    yield Column("accuracy", tuple(_share(e.train_accuracy) for e in epochs), 1)
    yield Column("held-out loss", tuple(_number(e.val_loss) for e in epochs), 1)
    yield Column("held-out accuracy", tuple(_share(e.val_accuracy) for e in epochs), 1)
    yield Column("time", tuple(units.quantity(e.train_time_s, "s") for e in epochs), 2)
    yield Column(f"{metrics.item}s/s", tuple(units.significant(e.throughput, 3) for e in epochs), 2)


def _shown(metrics: TrainingMetrics) -> Sequence[EpochMetrics]:
    epochs = metrics.epochs
    if len(epochs) <= _SHOWN:
        return epochs
    kept = {e.epoch for e in (*epochs[:_FIRST], *epochs[-_LAST:])} | {metrics.best_epoch}
    return [e for e in epochs if e.epoch in kept]


def _judged_by(epoch: EpochMetrics) -> str:
    if epoch.val_loss is None:
        return "loss"
    return "held-out accuracy" if epoch.val_accuracy is not None else "held-out loss"


def _ended(metrics: TrainingMetrics) -> Iterator[tuple[str, str]]:
    if metrics.outcome != "ok":
        yield "ended", f"{metrics.outcome}: {metrics.message}"
    if metrics.stopped_early is not None:
        yield "ended", f"after {len(metrics.epochs)} epochs: no improvement for {metrics.stopped_early} epochs"


def _time(metrics: TrainingMetrics, epoch: Epoch | None) -> Iterator[tuple[str, str]]:
    a_training = units.quantity(metrics.avg_epoch_time_s, "s")
    yield "took", f"{_whole_time(metrics)} in all, {a_training} of training an epoch"
    if epoch is None:
        return
    told = epoch.predicted
    if told is None or epoch.ratio is None:
        yield "predicted", "by no stored tune or run of these settings"
        return
    expected = told.epoch_s
    ends = units.interval(expected.value, expected.low, expected.high, "s")
    between = f" [{ends}]" if ends else ""
    of, each = (f" of {told.items:,} items", "item for item and ") if told.items else ("", "")
    said = f"{units.quantity(expected.value, 's')}{between} an epoch{of} by {told.by} {told.run_id}"
    yield "predicted", f"{said}; {each}without the first step it took {epoch.ratio:.3f} times that"


def _whole_time(metrics: TrainingMetrics) -> str:
    return units.quantity(metrics.total_runtime_minutes * 60.0, "s")


def _share(value: float | None) -> str:
    return units.quantity(value, "ratio")


def _number(value: float | None) -> str:
    return units.MISSING if value is None else units.significant(value, 4)
