"""Seed S3: the document's own file, read as printed, and devices that are not here."""

import json
from pathlib import Path

import pytest
import torch
from acceptance.feature_rows import row_of

from torchstone.config.recipe_files import load_request
from torchstone.execution.plan import sketch

PRINTED = Path(__file__).parent / "printed" / "s3_training_config.json"


def test_s3_12_every_key_of_the_file_as_printed_becomes_cases():
    request = load_request(PRINTED)
    assert (request.device, request.absent_ok) == ("cpu,cuda,mps", True)
    assert (request.procedure.warmup, request.procedure.iterations) == (5, 50)
    made = {work.model: sketch(work) for work in request.workloads}
    assert {model: one.workload.family for model, one in made.items()} == {
        "hf:bert-base-uncased": "embedding", "hf:distilbert-base-uncased": "embedding",
        "hf:gpt2": "text_generation", "hf:facebook/opt-125m": "text_generation",
    }  # fmt: skip
    printed = json.loads(PRINTED.read_text(encoding="utf-8"))
    axes = {"batch_size": "batch_sizes", "sequence_length": "sequence_lengths", "learning_rate": "learning_rates",
            "optimizer": "optimizers", "grad_accumulation": "gradient_accumulation_steps"}  # fmt: skip
    for one in made.values():
        assert one.workload.task == "train"
        for axis, key in axes.items():
            assert list(dict.fromkeys(c[axis] for c in one.configurations)) == printed[key]
        assert {c["precision"] for c in one.configurations} == {"fp32", "bf16"}
        assert len(one.configurations) == 5 * 3 * 3 * 2 * 4 * 2


def test_s3_03_and_12_a_device_that_is_typed_has_to_be_here(desk):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    (line,) = row_of("S3-03").typed
    said = desk.type(line, code=2)
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "device cuda not found: " in said.err
    assert "Found: cpu:0 " in said.err


def test_s3_12_a_file_of_which_no_device_is_here_is_refused_in_one_line(desk):
    if torch.backends.mps.is_available() or torch.xpu.is_available():
        pytest.skip("both kinds cannot be absent")
    small = {"model_families": {"vision": ["builtin:cnn"]}, "training_iterations": 2}
    desk.write("elsewhere.json", json.dumps({**small, "hardware_types": ["mps", "xpu"]}))
    said = desk.type("torchstone run --config elsewhere.json", code=2)
    assert len(said.err.splitlines()) == 1
    assert "device mps not found: " in said.err
