"""The folder of a training, and training_metrics.json in it: rewritten after every epoch, so that a crash costs one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.own_files import replacing
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Workload
from torchstone.core.schema.codec import check_schema, decode, encode
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import EpochEnded, EpochMetrics, Fit, TrainingMetrics
from torchstone.core.schema.trial import Trial
from torchstone.storage.record_reader import read_bounded

CARD = "training.json"
METRICS = "training_metrics.json"
TOKENIZER = "tokenizer.json"
STATE = "training_state.safetensors"
_CHECKPOINT = re.compile(r"checkpoint_epoch_(\d{1,6})\.safetensors")
_NAMED = re.compile(r"(?:checkpoint_epoch_)?(\d{1,6})(?:\.safetensors|\.pth?)?", re.ASCII)  # .pt: as other tools end it
_LISTED = 20


class TrainingCard(msgspec.Struct, frozen=True, tag="training", tag_field="record"):
    """What was asked of a training: enough to go on with it, and to judge what came of it."""

    schema: int
    run_id: str
    name: str
    workload: Workload
    configuration: Mapping[str, Scalar]
    placement: Placement
    procedure: Procedure
    labels: tuple[str, ...] = ()


def write_json(path: Path, term: object) -> None:
    """Write a term beside its place and move it there: whoever reads sees the old one or the new one, whole."""
    with replacing(path) as beside, beside.open("wb") as file:
        file.write(encode(term) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_card(folder: Path) -> TrainingCard:
    """Return what was asked of the training in a folder. Raises UsageError if there is none, or its file is not one."""
    path = folder / CARD
    if not path.is_file():
        raise UsageError(f"{folder}: not a training folder (no {CARD} in it); give the --output folder of `train`")
    with read_bounded(path) as file:
        data = file.read()
    try:
        card: TrainingCard = decode(data, TrainingCard)
        check_schema(card.schema)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    return card


def checkpoints(folder: Path) -> dict[int, Path]:
    """Return the weights that there are, by the epoch after which they were saved."""
    found = {int(m[1]): path for path in folder.iterdir() if (m := _CHECKPOINT.fullmatch(path.name))}
    return dict(sorted(found.items()))


def checkpoint_of(folder: Path, word: str) -> int:
    """Return the epoch that a word names: 3, checkpoint_epoch_3.safetensors (or .pt), or the path of such a file.

    Raises UsageError listing what there is, and for a file that lies in another folder.
    """
    found, path = checkpoints(folder), Path(word)
    named = _NAMED.fullmatch(path.name)
    if named is None or int(named[1]) not in found:
        numbers = [str(number) for number in found]
        more = f", … ({len(numbers)} in all)" if len(numbers) > _LISTED else ""
        raise UsageError(
            f"--checkpoint {word}: there are {', '.join(numbers[:_LISTED])}{more}, best and last in {folder} "
            f"(or by file: {found[max(found)].name})"
        )
    if len(path.parts) > 1 and folder.resolve() not in (path.parent.resolve(), (folder / path).parent.resolve()):
        raise UsageError(
            f"--checkpoint {word}: not a file of {folder}; "
            f"type torchstone evaluate {path.parent} --checkpoint {path.name}"
        )
    return int(named[1])


def training_of(word: str) -> Path | None:
    """Return the folder of the training that the path of a checkpoint names; None for a word without a folder."""
    path = Path(word)
    return path.parent if len(path.parts) > 1 and (path.parent / CARD).is_file() else None


def newest(folder: Path, recorded: Sequence[Path] = ()) -> Path:
    """Return the training that began, or was gone on with, last: below a folder, or one of those `recorded` elsewhere.

    One without a checkpoint does not count. Raises UsageError if there is none.
    """
    below = [path.parent for path in folder.glob(f"*/{CARD}")]
    there = [*below, *(path for path in recorded if (path / CARD).is_file())]
    found = [path for path in there if checkpoints(path)]
    if found:
        return max(found, key=lambda path: (path / CARD).stat().st_mtime_ns)
    if recorded:
        raise UsageError(f"{recorded[0]}: no checkpoint of the latest training in it; give a training's folder")
    raise UsageError(f"{folder}: no training in it; give a training's folder, or run `torchstone train` first")


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
            ended.number,
            ended.learning_rate,
            ended.loss,
            told.accuracy if told else None,
            held.loss if held else None,
            held.accuracy if held else None,
            ended.steps,
            ended.items,
            ended.train_time_s,
            ended.data_wait_s,
            ended.validation_time_s,
            ended.checkpoint_time_s,
            ended.items / ended.train_time_s,
            ended.batch_times_s,
            ended.checkpoint,
            ended.best,
            ended.began_s - origin_s,
            ended.ended_s - origin_s,
        )
        self._epochs = [*(e for e in self._epochs if e.epoch != entry.epoch), entry]
        write_json(self._path, self._metrics())
        return entry

    def close(self, trial: Trial) -> TrainingMetrics | None:
        """Write how it ended, with what the gauges read; None if no epoch did."""
        if not self._epochs:
            return None
        metrics = msgspec.structs.replace(
            self._metrics(),
            outcome=str(trial.outcome.status),
            message=trial.outcome.message,
            stopped_early=trial.facts.stopped_early,
            telemetry=trial.series,
        )
        write_json(self._path, metrics)
        return metrics

    def _metrics(self) -> TrainingMetrics:
        epochs = self._epochs
        trained_s = sum(e.train_time_s for e in epochs)
        whole_s = sum(e.ended_s - e.began_s for e in epochs)
        best = max((e.epoch for e in epochs if e.best), default=0)
        last = epochs[-1]
        return TrainingMetrics(
            self._run_id,
            self._workload.model,
            self._workload.data,
            self._device,
            self._workload.item,
            tuple(epochs),
            trained_s / len(epochs),
            whole_s / 60.0,
            sum(e.items for e in epochs) / trained_s,
            last.train_accuracy,
            last.val_accuracy,
            best,
        )
