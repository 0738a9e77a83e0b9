"""What a tune found, written into the files that come as examples, and read again by torchstone."""

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from torchstone.config.applying import diff_text, plan_changes, write
from torchstone.config.recipe_files import load_request
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.execution import plan

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS: dict[str, Scalar] = {
    "batch_size": 64,
    "num_workers": 2,
    "precision": "bf16",
    "learning_rate": 6e-4,
    "grad_accumulation": 4,
}


@pytest.fixture
def example(tmp_path):
    return lambda name: Path(shutil.copy(EXAMPLES / name, tmp_path))


def test_a_tuned_run_file_asks_for_exactly_that(example):
    path = example("tune.yaml")
    lines = path.read_text().splitlines()
    write(plan_changes(path, SETTINGS))
    (workload,) = load_request(path).workloads
    (configuration,) = plan.sketch(workload).configurations
    assert {name: configuration[name] for name in SETTINGS} == SETTINGS
    assert configuration["image_size"] == 32
    after = path.read_text().splitlines()
    assert [line for line in lines if "#" in line and "batch_size" not in line] == [x for x in after if x[:1] == "#"]
    assert "  batch_size: 64 # what the script began with" in after


def test_the_config_of_ones_own_script_keeps_all_but_the_values(example):
    path = example("train-config.yaml")
    before = path.read_text()
    changes = plan_changes(path, SETTINGS)
    backup = write(changes)
    assert backup is not None
    assert backup.read_text() == before
    removed = [line for line in diff_text(changes).splitlines()[2:] if line.startswith("-")]
    assert [line.split(":")[0].strip("- ") for line in removed] == [
        "batch_size", "num_workers", "use_amp", "learning_rate", "gradient_accumulation_steps",
    ]  # fmt: skip
    data = YAML(typ="safe", pure=True).load(path.read_text())
    assert data["data"] == {
        "root": "./data", "batch_size": 64, "num_workers": 2, "pin_memory": False, "augment": ["flip", "crop"],
    }  # fmt: skip
    assert data["training"] == {
        "epochs": 90, "use_amp": True, "learning_rate": 6e-4, "gradient_accumulation_steps": 4,
    }  # fmt: skip


def test_a_setting_that_the_config_has_no_key_for_is_shown_and_nothing_is_written(example):
    path = example("train-config.yaml")
    before = path.read_bytes()
    changes = plan_changes(path, {**SETTINGS, "compile": "default"})
    assert "+  compile: default" in diff_text(changes).splitlines()
    with pytest.raises(UsageError, match="nothing written: no key for compile"):
        write(changes)
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.bak")) == []
