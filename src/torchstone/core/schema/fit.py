"""Fit: how a model is trained to an end. EpochEnded: what one epoch of it came to."""

from __future__ import annotations

import msgspec

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
