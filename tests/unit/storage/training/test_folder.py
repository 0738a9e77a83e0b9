"""Which checkpoint a word means."""

import os

import pytest

from torchstone.core.errors import UsageError
from torchstone.storage.training.folder import CARD, checkpoint_of, newest, training_of


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
