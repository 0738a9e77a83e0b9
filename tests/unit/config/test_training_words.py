"""S2-36 to S2-39, S2-50: the configuration of a training script, as the seed prints its presets, is a run file."""

from pathlib import Path

import pytest

from torchstone.config.applying import diff_text, plan_changes, write
from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError

TEXT = """data:
  batch_size: 256       # or 512
  num_workers: 8
  pin_memory: true

training:
  use_amp: true
  learning_rate: 0.00015
  gradient_accumulation_steps: 4
  epochs: 3
"""


def asked(folder: Path, text: str) -> RunRequest:
    file = folder / "default.yaml"
    file.write_text(text)
    return load_request(file, "builtin:denoiser-small")


def test_every_word_becomes_a_setting(tmp_path):
    request = asked(tmp_path, TEXT)
    (one,) = request.workloads
    assert (one.task, one.model, one.data) == ("train", "builtin:denoiser-small", None)
    assert one.axes == {
        "batch_size": (256,), "num_workers": (8,), "pin_memory": (True,), "precision": ("bf16",),
        "learning_rate": (1.5e-4,), "grad_accumulation": (4,),
    }  # fmt: skip
    assert request.fit.epochs == 3


def test_data_may_be_named_beside_how_it_is_loaded(tmp_path):
    text = "data: {source: 'hdf5:s.h5', target_key: y, batch_size: 2}\ntraining: {use_amp: false}\n"
    (one,) = asked(tmp_path, text).workloads
    assert (one.data, one.data_options) == ("hdf5:s.h5", {"target_key": "y"})
    assert one.axes == {"batch_size": (2,), "precision": ("fp32",)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("training: 3\n", "default.yaml:1:1: training: must be a mapping with use_amp"),
        ("training: {use_apm: true}\n", "1:12: training.use_apm: unknown key. Did you mean 'use_amp'?"),
        ("training: {use_amp: 3}\n", "training.use_amp: 3 is not true or false"),
        ("data: {batch_size: 0}\ntraining: {use_amp: true}\n", "1:8: axes.batch_size: 0 is too small"),
        ("data: {root: there}\ntraining: {use_amp: true}\n", "data: 'source' is missing"),
        ("training: {epochs: 0}\n", "fit.epochs: 0 is not a whole number"),
        ("training: {epochs: 1}\nfit: 3\n", "fit: must be a mapping"),
        ("training: {epochs: 1}\naxes: 3\n", "axes: must be a mapping"),
    ],
)
def test_faults_are_told_at_the_users_own_keys(tmp_path, text, said):
    with pytest.raises(UsageError) as caught:
        asked(tmp_path, text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_tune_found_goes_into_its_own_words(tmp_path):
    file = tmp_path / "default.yaml"
    file.write_text("model: builtin:denoiser-small\n" + TEXT)
    load_request(file)
    changes = plan_changes(file, {"batch_size": 512, "precision": "fp32", "grad_accumulation": 2})
    assert [line for line in diff_text(changes).splitlines() if line[:1] == "+"][1:] == [
        "+  batch_size: 512       # or 512", "+  use_amp: false", "+  gradient_accumulation_steps: 2",
    ]  # fmt: skip
    write(changes)
    assert load_request(file).workloads[0].axes["batch_size"] == (512,)
