"""S3-12: the keys of other benchmarks' files, with models of every family in one file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from torchstone.config.applying import diff_text, plan_changes, write
from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.execution.plan import sketch

FAMILIES = {
    "embedding": ["bert-tiny"], "text_generation": ["gpt2-tiny"], "vision": ["vit-tiny", "hf:resnet-tiny"],
    "audio": ["wav2vec2-tiny"], "multimodal": ["clip-tiny"],
}  # fmt: skip
EVERY_KEY: dict[str, Any] = {
    "batch_sizes": [1, 2], "sequence_lengths": [8, 16], "warmup_iterations": 1, "training_iterations": 2,
    "learning_rates": [1e-5, 5e-5], "optimizers": ["adam", "adamw"], "model_families": FAMILIES,
    "hardware_types": ["cpu"], "mixed_precision": True, "gradient_accumulation_steps": [1, 2],
    "distributed_configs": [{"world_size": 1, "backend": "nccl"}],
}  # fmt: skip


def request_of(folder: Path, keys: dict[str, Any]) -> RunRequest:
    file = folder / "mine.json"
    file.write_text(json.dumps(keys))
    return load_request(file)


def refused(folder: Path, keys: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        request_of(folder, keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_goes_to_the_models_of_every_family(tmp_path: Path) -> None:
    request = request_of(tmp_path, EVERY_KEY)
    assert (request.device, request.procedure.warmup, request.procedure.iterations) == ("cpu", 1, 2)
    made = {work.model: sketch(work) for work in request.workloads}
    assert [one.workload.family for one in made.values()] == [f for f, models in FAMILIES.items() for _ in models]
    counts = {model.removeprefix("hf:"): len(one.configurations) for model, one in made.items()}
    without_lengths = 2 * 2 * 2 * 2 * 2  # batch size, learning rate, optimizer, precision, accumulation
    assert counts == {
        "bert-tiny": 2 * without_lengths, "gpt2-tiny": 2 * without_lengths, "vit-tiny": without_lengths,
        "resnet-tiny": without_lengths, "wav2vec2-tiny": without_lengths, "clip-tiny": 2 * without_lengths,
    }  # fmt: skip


def test_lengths_that_no_model_takes_are_refused(tmp_path: Path) -> None:
    (only,) = request_of(tmp_path, {"sequence_lengths": [8], "model": "hf:vit-tiny"}).workloads
    with pytest.raises(UsageError, match="axis sequence_length does not apply to task infer and hf:vit-tiny"):
        sketch(only)


def test_a_model_that_is_not_there_is_told_by_the_plan(tmp_path: Path) -> None:
    families = {"vision": ["vit-tiny"], "embedding": ["brt"]}
    request = request_of(tmp_path, {"sequence_lengths": [8], "model_families": families})
    assert request.workloads[1].axes == {"sequence_length": (8,)}
    with pytest.raises(UsageError, match="unknown model 'brt'"):
        sketch(request.workloads[1])


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        ([{"world_size": "all"}], "distributed_configs\\[0\\]: axis world_size: 'all' is not a whole number"),
        ([{"world_size": 2, "backend": "mpi"}], "unknown value 'mpi'"),
        ([{"world_size": 2, "ranks": 3}], "distributed_configs\\[0\\].ranks: unknown key"),
        ([3], "must be a mapping with world_size and backend"),
        ({"world_size": 1}, "must be a list"),
    ],
)
def test_a_wrong_distributed_config_is_named(tmp_path: Path, configs: Any, says: str) -> None:
    told = refused(tmp_path, {"model": "hf:bert-tiny", "distributed_configs": configs})
    assert re.search(says, told), told
    assert told.startswith(f"{tmp_path}/mine.json:1:")


def test_distributed_configs_are_workloads_of_their_sizes_by_back_end(tmp_path: Path) -> None:
    configs = [
        {"world_size": 1, "backend": "nccl"},
        {"world_size": 2, "backend": "gloo"},
        {"world_size": 4, "backend": "gloo"},
    ]
    request = request_of(tmp_path, {"model": "hf:bert-tiny", "batch_sizes": [2], "distributed_configs": configs})
    assert [work.task for work in request.workloads] == ["train", "train"]
    points = [dict(point) for work in request.workloads for point in sketch(work).configurations]
    assert [(p["world_size"], p.get("strategy"), p.get("backend"), p["batch_size"]) for p in points] == [
        (1, None, None, 2), (2, "auto", "gloo", 2), (4, "auto", "gloo", 2),
    ]  # fmt: skip


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


def request_of_text(folder: Path, text: str) -> RunRequest:
    file = folder / "default.yaml"
    file.write_text(text)
    return load_request(file, "builtin:denoiser-small")


def test_every_word_becomes_a_setting(tmp_path):
    request = request_of_text(tmp_path, TEXT)
    (one,) = request.workloads
    assert (one.task, one.model, one.data) == ("train", "builtin:denoiser-small", None)
    assert one.axes == {
        "batch_size": (256,), "num_workers": (8,), "pin_memory": (True,), "precision": ("bf16",),
        "learning_rate": (1.5e-4,), "grad_accumulation": (4,),
    }  # fmt: skip
    assert request.fit.epochs == 3


def test_data_may_be_named_beside_how_it_is_loaded(tmp_path):
    text = "data: {source: 'hdf5:s.h5', target_key: y, batch_size: 2}\ntraining: {use_amp: false}\n"
    (one,) = request_of_text(tmp_path, text).workloads
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
        request_of_text(tmp_path, text)
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
