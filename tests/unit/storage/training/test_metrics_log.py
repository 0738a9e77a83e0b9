"""What is on disk while a training runs, and what its folder says to those who come later."""

import json

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task, Workload
from torchstone.core.schema.fit import EpochEnded, Quality
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA
from torchstone.storage.training.folder import TrainingCard, checkpoints, newest, read_card, write_json
from torchstone.storage.training.metrics_log import MetricsLog

WORK = Workload(Task.TRAIN, "builtin:cnn", "digits", "image")


def ended(number, loss=1.0, **changes):
    told = {
        "training": Quality(0.9, 0.75, 4), "validation": Quality(1.1, 0.5, 4), "best": number == 1, **changes,
    }  # fmt: skip
    return EpochEnded(
        number, 1e-3, loss, told["training"], told["validation"], 10, 80, 2.0, 0.5, 0.25, 0.125, 100.0 + number,
        101.0 + number, (0.2,) * 10, f"checkpoint_epoch_{number}.safetensors", told["best"],
    )  # fmt: skip


def test_after_every_epoch_the_file_is_whole(tmp_path):
    diary = MetricsLog(tmp_path, "r1", WORK, "cpu")
    diary.begins(100.0)
    diary.add(ended(1))
    diary.add(ended(2, loss=float("nan"), validation=None))
    saved = json.loads((tmp_path / "training_metrics.json").read_text())
    assert saved["outcome"] == "running"
    assert saved["best_epoch"] == 1
    assert saved["throughput"] == 40.0
    assert saved["avg_epoch_time_s"] == 2.0
    first, second = saved["epochs"]
    assert (first["began_s"], first["throughput"], first["val_accuracy"]) == (1.0, 40.0, 0.5)
    assert (second["train_loss"], second["val_loss"]) == (None, None), "no number is null, and named beside"
    assert saved["nonfinite"] == [["epochs", 1, "train_loss", "nan"]]
    assert [path.name for path in tmp_path.iterdir()] == ["training_metrics.json"]


def test_an_epoch_that_is_told_again_is_not_there_twice(tmp_path):
    diary = MetricsLog(tmp_path, "r1", WORK, "cpu")
    diary.add(ended(1))
    diary.add(ended(1))
    assert [epoch.epoch for epoch in diary.epochs] == [1]


def a_card(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    card = TrainingCard(SCHEMA, "r1", "t", WORK, {"batch_size": 8}, Placement("cpu"), Procedure(), ("a", "b"))
    write_json(folder / "training.json", card)
    return card


def test_the_newest_training_with_a_checkpoint_is_found(tmp_path):
    card = a_card(tmp_path / "one")
    assert read_card(tmp_path / "one") == card
    with pytest.raises(UsageError, match="no training in it"):
        newest(tmp_path)
    (tmp_path / "one" / "checkpoint_epoch_2.safetensors").touch()
    (tmp_path / "one" / "checkpoint_epoch_10.safetensors").touch()
    a_card(tmp_path / "two")
    assert newest(tmp_path).name == "one"
    assert list(checkpoints(tmp_path / "one")) == [2, 10]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "does not match"), ("{1", "is not JSON"), ('{"record": "training", "schema": 9}', "does not match"),
    ],
)  # fmt: skip
def test_a_card_from_elsewhere_is_not_believed(tmp_path, text, says):
    (tmp_path / "training.json").write_text(text)
    with pytest.raises(UsageError, match=says):
        read_card(tmp_path)


def test_a_folder_without_a_training_says_so(tmp_path):
    with pytest.raises(UsageError, match="not a training folder"):
        read_card(tmp_path)
