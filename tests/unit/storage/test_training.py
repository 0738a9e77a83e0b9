"""Which checkpoint a word means."""

import json
import os

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task, Workload
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA
from torchstone.core.schema.training import EpochEnded, Quality
from torchstone.storage.training import (
    CARD,
    MetricsLog,
    TrainingCard,
    checkpoint_of,
    checkpoints,
    newest,
    read_card,
    training_of,
    write_json,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "trained"
    made.mkdir()
    for epoch in (1, 2, 20):
        (made / f"checkpoint_epoch_{epoch}.safetensors").touch()
    (made / CARD).touch()
    (tmp_path / "other").mkdir()
    return made


@pytest.mark.parametrize(
    "word",
    [
        "20", "checkpoint_epoch_20.safetensors", "checkpoint_epoch_20.pt", "checkpoint_epoch_20.pth",
        "checkpoint_epoch_20", "trained/checkpoint_epoch_20.safetensors", "./trained/checkpoint_epoch_20.pt",
        "other/../trained/checkpoint_epoch_20.pt",
    ],
)  # fmt: skip
def test_a_checkpoint_by_number_name_or_path(folder, word):
    assert checkpoint_of(folder, word) == 20
    assert checkpoint_of(folder, str(folder / "checkpoint_epoch_1.safetensors")) == 1


@pytest.mark.parametrize("word", ["3", "checkpoint_epoch_3.pt", "checkpoint_epoch_2.bin", "epoch_2", "", "latest"])
def test_what_is_not_there_is_refused_with_what_is(folder, word):
    with pytest.raises(UsageError) as caught:
        checkpoint_of(folder, word)
    there = f"there are 1, 2, 20, best and last in {folder} (or by file: checkpoint_epoch_20.safetensors)"
    assert str(caught.value) == f"--checkpoint {word}: {there}"


def test_a_long_list_is_cut(folder):
    for epoch in range(1, 301):
        (folder / f"checkpoint_epoch_{epoch}.safetensors").touch()
    with pytest.raises(UsageError, match=r"18, 19, 20, … \(300 in all\), best and last"):
        checkpoint_of(folder, "301")


def test_the_checkpoint_of_another_training_is_refused_with_its_folder(folder):
    with pytest.raises(UsageError, match=r"type torchstone evaluate other --checkpoint checkpoint_epoch_2\.pt$"):
        checkpoint_of(folder, "other/checkpoint_epoch_2.pt")


def test_a_path_names_its_training(folder):
    assert training_of("trained/checkpoint_epoch_2.pt") is not None
    assert training_of(str(folder / "checkpoint_epoch_2.safetensors")) == folder
    assert [training_of(word) for word in ("2", "best", "other/checkpoint_epoch_2.pt")] == [None] * 3


@pytest.mark.parametrize("latest", ["monday", "tuesday", "wednesday"])
def test_the_latest_of_several_trainings(tmp_path, latest):
    moments = {"monday": 100, "tuesday": 200, "wednesday": 250, latest: 300, "cut_before_an_epoch": 400}
    for name, at_s in moments.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / CARD).touch()
        os.utime(tmp_path / name / CARD, (at_s, at_s))
        if at_s < 400:
            (tmp_path / name / "checkpoint_epoch_1.safetensors").touch()
    assert newest(tmp_path).name == latest


def test_the_latest_may_lie_elsewhere(tmp_path):
    below, elsewhere, gone = tmp_path / "outputs" / "training" / "monday", tmp_path / "mine", tmp_path / "gone"
    for place, at_s in ((below, 100), (elsewhere, 200)):
        place.mkdir(parents=True)
        for name in (CARD, "checkpoint_epoch_1.safetensors"):
            (place / name).touch()
        os.utime(place / CARD, (at_s, at_s))
    assert newest(below.parent, [gone, elsewhere]) == elsewhere
    assert newest(below.parent) == below
    os.utime(below / CARD, (300, 300))
    assert newest(below.parent, [elsewhere]) == below
    with pytest.raises(UsageError, match="gone: no checkpoint of the latest training in it; give a training's folder"):
        newest(tmp_path / "none", [gone])


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
