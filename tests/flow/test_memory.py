"""`torchstone memory` and `tune --for` through the real command line: no device, and nothing is measured."""

import json
import sys

import pytest

from torchstone.cli import main


def told(capfd, *words):
    capfd.readouterr()
    code = main([*words, "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_what_fits_the_largest_batch_and_the_parts_as_pictures(capfd, outputs, tmp_path):
    pytest.importorskip("vl_convert")
    words = ["memory", "--model", "hf:bert-tiny", "--task", "train", "--for", "rtx4090", "--batch-sizes", "8"]
    assert main([*words, "--plots", str(tmp_path / "plots")]) == 0
    said, told_of = capfd.readouterr()
    first = " ".join(said.split(".")[0].split())
    assert first.startswith("train bert-tiny, batch_size 8 fits an NVIDIA GeForce RTX 4090: its peak is")
    assert "The largest batch that leaves a tenth of the memory free is" in " ".join(said.split())
    assert not outputs.exists(), "nothing is written but the pictures"
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"memory_by_kind.svg", "memory_by_kind.png"}
    assert str(tmp_path / "plots" / "memory_by_kind.svg") in told_of
    svg = (tmp_path / "plots" / "memory_by_kind.svg").read_text(encoding="utf-8")
    assert all(f">{kind}</text>" in svg for kind in ("weights", "gradients", "optimizer", "activations"))


@pytest.mark.long
def test_several_cards_and_settings_as_json(capfd):
    words = ["--task", "train", "--model", "builtin:cnn", "--for", "h100-80gb,mi300x,24gb", "--axis"]
    code, found = told(capfd, "memory", *words, "precision=fp32,bf16", "--batch-sizes", "512")
    assert code == 0
    assert [row["card"] for row in found["rows"][::2]] == ["NVIDIA H100 SXM 80 GB", "AMD MI300X", "a card of 24 GB"]
    assert {row["verdict"] for row in found["rows"]} == {"fits"}
    by_memory = {row["memory_bytes"]: row["largest"]["batch_size"] for row in found["rows"][::2]}
    assert sorted(by_memory.values()) == [by_memory[size] for size in sorted(by_memory)]
    for row in found["rows"]:
        assert sum(row["peak"]["kinds"].values()) == row["peak"]["allocated_bytes"]
        assert row["largest"]["allocated_bytes"] <= 0.9 * row["memory_bytes"]
    full, half = (row["peak"]["kinds"]["activations"] for row in found["rows"][:2])
    assert half < full


@pytest.mark.long
def test_checkpointing_and_optimizers(capfd):
    words = ["--task", "train", "--model", "hf:gpt2-tiny", "--for", "l4", "--batch-sizes", "64"]
    axes = ["--axis", "gradient_checkpointing=false,true", "--axis", "optimizer=sgd,adamw"]
    _, found = told(capfd, "memory", *words, *axes)
    peaks = {
        (r["configuration"]["gradient_checkpointing"], r["configuration"]["optimizer"]): r["peak"]
        for r in found["rows"]
    }
    assert peaks[True, "sgd"]["kinds"]["activations"] < peaks[False, "sgd"]["kinds"]["activations"]
    assert peaks[False, "adamw"]["kinds"]["optimizer"] > peaks[False, "sgd"]["kinds"]["optimizer"]


def test_what_does_not_fit_ends_with_1(capfd):
    words = ["memory", "--task", "train", "--model", "builtin:cnn", "--for", "t4", "--batch-sizes", "1000000"]
    code, found = told(capfd, *words)
    assert code == 1
    assert found["rows"][0]["verdict"] == "too large"


def test_a_recipe_whose_data_and_weights_are_not_here(capfd):
    code, found = told(capfd, "memory", "sst2-small", "--for", "t4")
    assert code == 0
    assert {row["task"] for row in found["rows"]} <= {"train", "infer"}


MINE = """import torch
from torch import nn

def load():
    return nn.Linear(64, 8), (torch.randn(32, 64), torch.randint(0, 8, (32,))), nn.functional.cross_entropy
"""


def test_a_model_of_ones_own_with_its_example(capfd, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    code, found = told(capfd, "memory", "--task", "train", "--model", f"py:{tmp_path}/mine.py:load", "--for", "l4")
    assert code == 0
    assert found["rows"][0]["peak"]["batch_size"] == 32, "the example's"
    code, found = told(
        capfd,
        "memory",
        "--task",
        "train",
        "--model",
        f"py:{tmp_path}/mine.py:load",
        "--for",
        "l4",
        "--batch-sizes",
        "64",
    )
    assert found["rows"][0]["peak"]["batch_size"] == 64


def test_a_model_that_falls_is_the_users_mistake(refused, tmp_path):
    (tmp_path / "falls.py").write_text("def load():\n    raise ValueError('no such chance')\n")
    words = ["memory", "--task", "train", "--model", f"py:{tmp_path}/falls.py:load", "--for", "l4"]
    assert "no such chance" in refused(*words, lines=9)


@pytest.mark.long
def test_tune_for_a_card_measures_nothing(capfd, outputs):
    words = ["tune", "--task", "train", "--model", "hf:bert-tiny", "--for", "h100-80gb"]
    code, found = told(capfd, *words)
    assert code == 0
    assert found["points"]["NVIDIA H100 SXM 80 GB"]["of"] == 42
    assert found["points"]["NVIDIA H100 SXM 80 GB"]["fit"] > 30
    assert {row["configuration"]["precision"] for row in found["rows"]} == {"fp32", "tf32", "bf16"}
    assert main(words) == 0
    assert "Settings that fit, of those that tune would try: " in capfd.readouterr().out
    assert not outputs.exists()


@pytest.mark.parametrize("command", ["memory", "tune"])
def test_a_wrong_name_is_one_line_with_near_names(refused, command):
    said = refused(command, "--task", "train", "--model", "builtin:cnn", "--for", "h100-90gb")
    assert said.startswith("torchstone: unknown card 'h100-90gb'. Near: h100-94gb, h100-80gb")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("memory", "--for", "l4"), "name a recipe"),
        (("memory", "gpt2", "--task", "generate", "--for", "l4"), "memory predicts train and infer only"),
        (("memory", "cnn", "--device", "cuda"), "--for rtx4090"),
        (("memory", "cnn", "--forr", "l4"), "Did you mean --for"),
    ],
)
def test_mistakes(refused, words, said):
    assert said in refused(*words)


def test_pictures_that_cannot_be_drawn_are_told_before_anything_is_traced(capfd, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    words = ["memory", "--model", "hf:bert-tiny", "--task", "train", "--for", "rtx4090"]
    assert main([*words, "--plots", str(tmp_path / "plots")]) != 0
    told = capfd.readouterr()
    assert told.out == ""
    assert "pip install 'torchstone[charts]'" in told.err
