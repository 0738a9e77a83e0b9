"""S3-12: the keys of other benchmarks' files, with models of every family in one file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

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


def asked(folder: Path, keys: dict[str, Any]) -> RunRequest:
    file = folder / "mine.json"
    file.write_text(json.dumps(keys))
    return load_request(file)


def refused(folder: Path, keys: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        asked(folder, keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_goes_to_the_models_of_every_family(tmp_path: Path) -> None:
    request = asked(tmp_path, EVERY_KEY)
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
    (only,) = asked(tmp_path, {"sequence_lengths": [8], "model": "hf:vit-tiny"}).workloads
    with pytest.raises(UsageError, match="axis sequence_length does not apply to task infer and hf:vit-tiny"):
        sketch(only)


def test_a_model_that_is_not_there_is_told_by_the_plan(tmp_path: Path) -> None:
    families = {"vision": ["vit-tiny"], "embedding": ["brt"]}
    request = asked(tmp_path, {"sequence_lengths": [8], "model_families": families})
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
    request = asked(tmp_path, {"model": "hf:bert-tiny", "batch_sizes": [2], "distributed_configs": configs})
    assert [work.task for work in request.workloads] == ["train", "train"]
    points = [dict(point) for work in request.workloads for point in sketch(work).configurations]
    assert [(p["world_size"], p.get("strategy"), p.get("backend"), p["batch_size"]) for p in points] == [
        (1, None, None, 2), (2, "auto", "gloo", 2), (4, "auto", "gloo", 2),
    ]  # fmt: skip
