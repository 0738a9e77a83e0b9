"""Seed S3: the lines of the document with their own models, as short as they can be."""

import json
import math
from pathlib import Path

import pytest
import torch

from torchstone.plugins.models.hf.families import MODELS

pytestmark = pytest.mark.long

PRINTED = Path(__file__).parent / "printed" / "s3_training_config.json"


def ended(case):
    return {trial["outcome"]["status"] for trial in case["trials"]}


def test_s3_01_without_arguments_devices_are_found_models_measured_and_stored(desk):
    said = desk.claimed("S3-01").out
    assert "train distilbert-base-uncased" in said
    assert "train google/vit-base-patch16-224" in said
    (record,) = (desk.folder / "outputs" / "records").glob("*.jsonl")
    head = json.loads(record.read_text(encoding="utf-8").splitlines()[0])
    found = {device["kind"] for device in head["machine"]["devices"]}
    assert ("cuda" in found) == torch.cuda.is_available()
    assert {case["workload"]["task"] for case in head["plan"]["cases"]} == {"infer", "train"}
    assert len(list((desk.folder / "outputs").glob("benchmark_*.json"))) == 1


def test_s3_02_families_hardware_batch_sizes_and_learning_rates_of_one_line(desk):
    run = desk.claimed("S3-02").document
    assert {case["workload"]["family"] for case in run["cases"]} == {"embedding", "text_generation"}
    trained = [case for case in run["cases"] if case["workload"]["task"] == "train"]
    points = {(case["configuration"]["batch_size"], case["configuration"]["learning_rate"]) for case in trained}
    assert points == {(1, 1e-5), (1, 5e-5), (2, 1e-5)}
    assert all(ended(case) == {"ok"} for case in run["cases"])


def test_s3_64_one_configuration_is_one_case(desk):
    run = desk.claimed("S3-64").document
    (case,) = run["cases"]
    point = case["configuration"]
    assert (case["workload"]["family"], point["batch_size"], point["optimizer"]) == ("embedding", 16, "adam")
    assert point["learning_rate"] == 5e-5
    assert ended(case) == {"ok"}


def test_s3_12_the_file_as_printed_runs_on_a_machine_that_has_some_of_its_devices(desk):
    desk.write("training_config.json", PRINTED.read_text(encoding="utf-8"))
    run = desk.type(
        "torchstone run --config training_config.json --batch-sizes 1 --sequence-lengths 32 --learning-rates 1e-5 "
        "--optimizers adam --grad-accumulation 1 --trials 1 --iterations 2 --warmup 1 --warmup-budget 1ms --no-phases "
        "--json"
    ).document
    models = {"hf:bert-base-uncased", "hf:distilbert-base-uncased", "hf:gpt2", "hf:facebook/opt-125m"}
    measured = [case for case in run["cases"] if ended(case) == {"ok"}]
    assert {(case["workload"]["model"], case["configuration"]["precision"]) for case in measured} >= {
        (model, word) for model in models for word in ("fp32", "bf16")
    }
    absent = [case for case in run["cases"] if ended(case) == {"unsupported"}]
    assert len(measured) + len(absent) == len(run["cases"]) == 3 * 8


def test_s3_75_a_model_of_the_hub_needs_no_network_unless_its_weights_are_asked_for(desk):
    (case,) = desk.claimed("S3-75").document["cases"]
    assert ended(case) == {"ok"}
    assert case["workload"]["fixed"]["weights"] == "random"
    said = desk.type("torchstone run --model hf:bert-base-uncased --option weights=pretrained --trials 1", code=2)
    assert len(said.err.splitlines()) == 1
    assert "bert-base-uncased" in said.err


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """The hub's cache as a download leaves it: a small BERT whose head answers 0 whatever it reads, and its words."""
    import transformers

    repository = tmp_path / "hub" / "models--google-bert--bert-base-uncased"
    snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    config = transformers.AutoConfig.for_model("bert", **MODELS["bert-tiny"].settings)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.zero_()
    model.save_pretrained(snapshot)
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good")
    transformers.BertTokenizer(vocab={word: place for place, word in enumerate(words)}).save_pretrained(snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(snapshot.name, encoding="utf-8")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_s3_75_weights_that_were_downloaded_are_those_that_train(desk, downloaded):
    run = desk.type(
        "torchstone run --task train --model hf:bert-base-uncased --option weights=pretrained --batch-sizes 4 "
        "--sequence-lengths 8 --trials 1 --iterations 2 --warmup 1 --warmup-budget 1ms --no-phases --json"
    ).document
    (case,) = run["cases"]
    (trial,) = case["trials"]
    assert (ended(case), case["workload"]["fixed"]["weights"]) == ({"ok"}, "pretrained")
    assert trial["figures"]["values"]["loss_first"] == pytest.approx(math.log(2.0), abs=1e-6), "two classes, no answer"
    assert trial["facts"]["parameters"] < 200_000, "the hub's config, and not that of the published size"
