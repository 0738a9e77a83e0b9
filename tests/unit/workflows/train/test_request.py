"""Which weights a training begins with, and where its files are looked for later."""

from pathlib import Path

import pytest

from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.request import WorkloadRequest
from torchstone.plugins.models import _weights_file
from torchstone.workflows.train.training import absolute_model, training_request


@pytest.fixture(autouse=True)
def _hub_answers(monkeypatch):
    monkeypatch.setattr(_weights_file, "refuse_absent", lambda model, hub: None)


def asked(model, **options):
    request = RunRequest((WorkloadRequest("train", model, "digits", options),))
    return training_request(request, 1, None, limited=False).workload.fixed["weights"]


def test_what_is_trained_to_an_end_begins_with_pretrained_weights_where_there_are_such():
    assert asked("hf:google/vit-base-patch16-224") == "pretrained"
    assert asked("vit-base") == "pretrained"
    assert asked("hf:vit-base", weights="random") == "random"
    assert asked("hf:vit-tiny") == "random", "a twin of which there are no others"
    assert asked("builtin:cnn") == "random"


def test_offline_it_says_what_to_type(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"type --model hf:FOLDER .*, or --option weights=random$") as caught:
        asked("hf:google/vit-base-patch16-224")
    assert "\n" not in str(caught.value)


def test_no_recipe_says_fine_tune_and_takes_random_weights():
    from torchstone.config.recipe_files import recipe_names

    for name, about in recipe_names():
        if "fine-tun" in about:
            training = [one for one in load_request(name).workloads if one.task == "train"]
            assert [one.options.get("weights") for one in training] == ["pretrained"], name
    assert "fine-tun" in dict(recipe_names())["finetune-mri"]


def test_a_training_is_found_again_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit").mkdir()
    (tmp_path / "cnn.pth").touch()

    def told(model, **fixed):
        return absolute_model(Workload(Task.TRAIN, model, "digits", "image", None, fixed))

    assert told("hf:./vit", source="folder") == f"hf:{tmp_path}/vit"
    assert told("builtin:cnn@./cnn.pth", weights="file") == f"builtin:cnn@{Path(tmp_path)}/cnn.pth"
    assert told("hf:vit-tiny", source="vit-tiny", weights="random") == "hf:vit-tiny"
