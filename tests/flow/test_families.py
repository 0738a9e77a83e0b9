"""A small member of every family, both tasks, through the real command: one session."""

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_templates import TORCHSTONE

from torchstone.cli import main

MODELS = {
    "embedding": ["distilbert-tiny", "bert-tiny", "roberta-tiny"],
    "text_generation": ["gpt2-tiny", "opt-tiny"],
    "vision": ["vit-tiny", "resnet-tiny"],
    "audio": ["wav2vec2-tiny", "whisper-tiny-twin"],
    "multimodal": ["clip-tiny"],
}
TEXT, IMAGE = {"sequence_length": 16}, {"image_size": 64}
AXES: dict[str, dict[str, Any]] = {
    "embedding": TEXT, "text_generation": TEXT, "vision": IMAGE, "audio": {"audio_s": 0.5},
    "multimodal": {**TEXT, **IMAGE},
}  # fmt: skip
ITEMS = {
    "embedding": "sequence", "text_generation": "sequence", "vision": "image", "audio": "clip", "multimodal": "pair",
}  # fmt: skip


def session(folder: Path) -> dict[str, Any]:
    workloads = [
        {
            "task": task,
            "model": f"hf:{model}",
            "data": "synthetic",
            "axes": {"batch_size": 2, "threads": 1, **AXES[family]},
        }
        for family, models in MODELS.items()
        for model in models
        for task in ("infer", "train")
    ]
    procedure = {"trials": 1, "warmup": 1, "warmup_budget": "100ms", "iterations": 3, "telemetry": 0}
    file = folder / "every.json"
    file.write_text(json.dumps({"procedure": procedure, "workloads": workloads}))
    words = [*TORCHSTONE, "run", str(file), "--json", "--quiet"]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_every_family_infers_and_trains(tmp_path: Path) -> None:
    cases = {(c["workload"]["model"], c["workload"]["task"]): c for c in session(tmp_path)["cases"]}
    wanted = {model: family for family, models in MODELS.items() for model in models}
    assert set(cases) == {(f"hf:{model}", task) for model in wanted for task in ("infer", "train")}
    for (model, task), case in cases.items():
        family = wanted[model.removeprefix("hf:")]
        (trial,) = case["trials"]
        assert trial["outcome"]["status"] == "ok", (model, task, trial["outcome"])
        assert (case["workload"]["family"], case["workload"]["item"]) == (family, ITEMS[family])
        estimates = case["estimates"]
        assert estimates["throughput"]["value"] > 0
        assert estimates["flops_per_step"]["value"] > 0, trial["facts"]["flops_not_counted"]
        assert ("token_throughput" in estimates) == (family in ("embedding", "text_generation", "multimodal"))
        if task == "train":
            assert math.isfinite(estimates["loss_first"]["value"])
            assert math.isfinite(estimates["loss_last"]["value"])
        else:
            assert estimates["latency_per_batch_p50_s"]["value"] > 0


@pytest.mark.long
@pytest.mark.parametrize("family", MODELS)
def test_every_family_trains_to_an_end(family: str, tmp_path: Path) -> None:
    axes = [word for axis, value in AXES[family].items() for word in ("--axis", f"{axis}={value}")]
    words = ["train", "--model", f"hf:{MODELS[family][-1]}", "--steps", "2", "--batch-sizes", "2", *axes]
    assert main([*words, "--axis", "threads=1", "--output", str(tmp_path / "it"), "--device", "cpu", "--quiet"]) == 0
    (epoch,) = json.loads((tmp_path / "it" / "training_metrics.json").read_text())["epochs"]
    assert (epoch["steps"], epoch["items"]) == (2, 4)
    assert math.isfinite(epoch["train_loss"])
    assert (tmp_path / "it" / epoch["checkpoint"]).stat().st_size > 10_000
