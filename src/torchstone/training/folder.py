"""The folder of a training: what was trained on what, the checkpoints, the metrics, the test's results."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchstone.errors import UsageError
from torchstone.store.reading import read_bounded
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Placement, Workload
from torchstone.terms.codec import decode, encode
from torchstone.terms.procedure import Procedure

CARD = "training.json"
METRICS = "training_metrics.json"
TOKENIZER = "tokenizer.json"
STATE = "training_state.safetensors"
SCHEMA = 1
_CHECKPOINT = re.compile(r"checkpoint_epoch_(\d{1,6})\.safetensors")


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
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(encode(term) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_card(folder: Path) -> TrainingCard:
    """Return what was asked of the training in a folder. Raises UsageError if there is none, or its file is not one."""
    path = folder / CARD
    if not path.is_file():
        raise UsageError(f"{folder}: no training lies here (there is no {CARD}); name the --output of a `train`")
    with read_bounded(path) as file:
        data = file.read()
    try:
        card: TrainingCard = decode(data, TrainingCard)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    if card.schema > SCHEMA:
        raise UsageError(f"{path}: written by a newer torchstone (schema {card.schema}); upgrade torchstone")
    return card


def checkpoints(folder: Path) -> dict[int, Path]:
    """Return the weights that there are, by the epoch after which they were saved."""
    found = {int(m[1]): path for path in folder.iterdir() if (m := _CHECKPOINT.fullmatch(path.name))}
    return dict(sorted(found.items()))


def newest(folder: Path) -> Path:
    """Return the training below a folder whose metrics were written last. Raises UsageError if there is none."""
    found = [path.parent for path in folder.glob(f"*/{CARD}") if checkpoints(path.parent)]
    if not found:
        raise UsageError(f"{folder}: holds no training yet; name its folder, or run `torchstone train` first")
    return max(found, key=lambda path: (path / CARD).stat().st_mtime)
