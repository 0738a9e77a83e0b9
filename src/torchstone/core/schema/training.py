"""A training to its end: how it is asked for, its epochs, and how long one took beside what was predicted."""

from __future__ import annotations

import msgspec

from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Series

SCHEDULES = ("constant", "linear", "cosine")
KEPT = ("all", "best")


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a training to an end has beyond a measured Case; the Procedure's `epochs` say how long.

    `schedule` of the learning rate after a rise over the first `warmup_share` of all steps: constant, or falling to 0
    along a line or half a cosine (Loshchilov & Hutter 2017, arXiv:1608.03983). `early_stop`: epochs that are not the
    best so far, after which it ends. `validation_split`: the split of the data to judge on; where there is none,
    the share `validation` of the training data is held out. `folder`: where checkpoints go. `resume`: go on from what
    lies there.
    """

    schedule: str = "constant"
    warmup_share: float = 0.0
    early_stop: int | None = None
    validation: float = 0.1
    validation_split: str | None = None
    augment: bool = True
    keep: str = "all"  # checkpoints: of every epoch, or of the best and the last
    folder: str = ""
    resume: bool = False


class Quality(msgspec.Struct, frozen=True):
    """How good a model is on some items: mean loss an item, and share of the right answers where items have classes."""

    loss: float
    accuracy: float | None
    items: int


class EpochEnded(msgspec.Struct, frozen=True, tag="epoch", tag_field="event"):
    """One epoch of a training, sent when its checkpoint is on disk.

    `loss`: mean of its steps while it learnt. `training`: the model at its end on as many training items as there are
    for validation, without augmentation; None without classes. Moments are of the clock that all processes share.
    """

    number: int
    learning_rate: float  # at its last step
    loss: float
    training: Quality | None
    validation: Quality | None
    steps: int
    items: int
    train_time_s: float
    data_wait_s: float
    validation_time_s: float
    checkpoint_time_s: float
    began_s: float
    ended_s: float
    batch_times_s: tuple[float, ...]
    checkpoint: str
    best: bool  # so far


class Evaluation(msgspec.Struct, frozen=True):
    """What `evaluate` asks of a trial: judge these weights on the data of the Case, and save every prediction.

    `held_out`: only the share that a training on this very data has held out. `labels`: the classes of the model.
    """

    weights: str
    predictions: str
    split: str | None = None
    labels: tuple[str, ...] = ()
    tokenizer: str | None = None
    held_out: float | None = None


class Evaluated(msgspec.Struct, frozen=True, tag="judged", tag_field="event"):
    """What came of an Evaluation: how good, how long each batch took (host clock, its answers read)."""

    quality: Quality
    labels: tuple[str, ...]
    batch_times_s: tuple[float, ...]


class EpochMetrics(msgspec.Struct, frozen=True):
    """One epoch. `train_loss` is the mean over its steps, while it learnt; all else is of the model at its end."""

    epoch: int
    learning_rate: float
    train_loss: float
    train_accuracy: float | None
    val_loss: float | None
    val_accuracy: float | None
    steps: int
    items: int
    train_time_s: float
    data_wait_s: float
    validation_time_s: float
    checkpoint_time_s: float
    throughput: float
    batch_times_s: tuple[float, ...]
    checkpoint: str
    best: bool
    began_s: float  # since the training began, as the times of `telemetry`
    ended_s: float


class TrainingMetrics(msgspec.Struct, frozen=True):
    """The whole file. `throughput` in items a second of training; `telemetry` comes when the training has ended."""

    run_id: str
    model: str
    data: str
    device: str
    item: str
    epochs: tuple[EpochMetrics, ...]
    avg_epoch_time_s: float
    total_runtime_minutes: float
    throughput: float
    final_train_accuracy: float | None
    final_val_accuracy: float | None
    best_epoch: int
    outcome: str = "running"
    message: str | None = None
    stopped_early: int | None = None  # epochs without improvement after which it was stopped
    telemetry: tuple[Series, ...] = ()


def without_steps(metrics: TrainingMetrics) -> TrainingMetrics:
    """Return the metrics without single steps and gauges: what the record of a training has."""
    epochs = tuple(msgspec.structs.replace(epoch, batch_times_s=()) for epoch in metrics.epochs)
    return msgspec.structs.replace(metrics, epochs=epochs, telemetry=())


class Prediction(msgspec.Struct, frozen=True):
    """What an epoch was said to take, and by which run: `by` is tune or run. `items` of that epoch, where known."""

    epoch_s: Estimate
    by: str
    run_id: str
    started_utc: str
    items: int | None = None


class Epoch(msgspec.Struct, frozen=True):
    """What one trained Case measured, in seconds an epoch, beside what was predicted, if anything was.

    `first_s` is the share of the first step of all (loader processes start in it, kernels are chosen and compiled),
    spread over the epochs. It is part of `measured_s`, and of no prediction: those are of steady steps. `item_s`: what
    an item of all other steps took.
    """

    measured_s: float
    first_s: float
    steps: int
    items: int
    item_s: float
    predicted: Prediction | None = None

    @property
    def ratio(self) -> float | None:
        """Return steady measured time over predicted time: item for item, since a training may hold some out."""
        told = self.predicted
        if told is None or told.epoch_s.value <= 0.0:
            return None
        measured_s = self.item_s * told.items if told.items else self.measured_s - self.first_s
        return measured_s / told.epoch_s.value


class Training(msgspec.Struct, frozen=True, tag="training", tag_field="kind"):
    """What a training came to. `metrics`: of its epochs, those before a cut included, without single steps and gauges.

    None where no epoch ended. `folder`: where checkpoints are, and all metrics. `epoch`: None where its trial did not
    end well.
    """

    folder: str
    metrics: TrainingMetrics | None
    epoch: Epoch | None = None

    @property
    def ended_well(self) -> bool:
        """Whether it trained to its end."""
        return self.metrics is not None and self.metrics.outcome == "ok"
