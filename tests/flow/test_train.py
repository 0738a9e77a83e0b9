"""`torchstone train` and `evaluate`: to an end, cut and gone on with, judged; and beside what a tune predicted."""

import csv
import json
import random
import re
import shutil
from pathlib import Path

import msgspec
import pytest
import sklearn.metrics
import torch
from build import a_machine, a_run, a_trial
from PIL import Image
from safetensors.torch import load_file

from torchstone.cli import main
from torchstone.config.applying import plan_changes, write
from torchstone.config.recipe_files import load_request
from torchstone.core.schema.answer import Choice, TuneResult, TuneSpec
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import Answered
from torchstone.execution import machine_facts, plan
from torchstone.storage.record_writer import RecordWriter
from torchstone.storage.training import MetricsLog

EXAMPLE = Path(__file__).parents[2] / "examples" / "tune.yaml"
SETTINGS = {"batch_size": 256, "num_workers": 1, "learning_rate": 1e-3}


def predict(outputs, epoch_s):
    """Store a tune that recommends SETTINGS for the example."""
    (own,) = load_request(EXAMPLE).workloads
    case = Case(plan.sketch(WorkloadRequest(own.task, own.model, own.data)).workload, SETTINGS, Placement("cpu"))
    choice = Choice(case.case_id, SETTINGS, 3)
    answer = TuneResult(
        choice, choice, None, (), None, None, Estimate(epoch_s, None, None, 0.95, "s", "t", 3, 300), SETTINGS, (), 1.0,
        None, 1, 1, 1,
    )  # fmt: skip
    run = a_run([a_trial(case_id=case.case_id)], cases=[case], machine=a_machine(host=machine_facts.host()))
    spec = TuneSpec("throughput", "adaptive", case, {name: (value,) for name, value in SETTINGS.items()})
    with RecordWriter(
        outputs / "records" / "tuned.jsonl", msgspec.structs.replace(run.head, run_id="tuned", tune=spec)
    ) as writer:
        for trial in run.trials:
            writer.append(trial)
        writer.append(Answered(answer))


def test_two_epochs_with_the_settings_that_were_applied(tmp_path, outputs, capfd, refused):
    path = Path(shutil.copy(EXAMPLE, tmp_path / "mine.yaml"))
    write(plan_changes(path, SETTINGS))
    predict(outputs, 4.0)
    assert main(["train", str(path), "--epochs", "2", "--axis", "image_size=8", "--device", "cpu"]) == 0
    said = capfd.readouterr()
    assert "Trained 2 epochs" in said.out
    assert re.search(
        r"predicted +4\.00 s an epoch by tune tuned; without the first step +it +took [\d.]+ +t",
        " ".join(said.out.split()),
    )
    assert re.search(r"epoch 2 of 2: loss [\d.]+, held-out loss [\d.]+, accuracy [\d.]+ %", said.err)

    (record,) = [p for p in (outputs / "records").glob("*.jsonl") if p.stem != "tuned"]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert lines[0]["procedure"]["epochs"] == 2
    (trial,) = [line for line in lines if line["record"] == "trial"]
    items = [m["values"] for m in trial["measurements"] if m["metric"] == "items"]
    assert items == [[256.0] * 5, [256.0] * 6], "a window an epoch; one step of the first is kept apart"
    (losses,) = [m["values"] for m in trial["measurements"] if m["metric"] == "loss"]
    assert len(losses) == 12
    assert trial["facts"]["validation_items"] == 179, "a tenth of each class of 1,797 digits"
    (case,) = lines[0]["plan"]["cases"]
    assert case["configuration"]["feed"] == "loader"
    assert {name: case["configuration"][name] for name in SETTINGS} == SETTINGS

    assert main(["show", record.stem, "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["cases"][0]["estimates"]["epoch_time_s"]["value"] > 0
    assert record.stem in refused("resume", record.stem)

    (folder,) = (outputs / "training").iterdir()
    metrics = json.loads((folder / "training_metrics.json").read_text())
    assert [epoch["items"] for epoch in metrics["epochs"]] == [1536, 1536]
    assert metrics["outcome"] == "ok"
    assert metrics["total_runtime_minutes"] * 60 > metrics["avg_epoch_time_s"] > 0
    assert {series["metric"] for series in metrics["telemetry"]} >= {"rss_bytes"}
    assert main(["evaluate", "--json"]) == 0, "the latest training, without being named"
    judged = json.loads(capfd.readouterr().out)
    assert judged["items"] == 179
    assert judged["accuracy"] == metrics["epochs"][judged["epoch"] - 1]["val_accuracy"]


def losses_of(folder):
    return [epoch["train_loss"] for epoch in json.loads((folder / "training_metrics.json").read_text())["epochs"]]


@pytest.fixture
def photos(tmp_path):
    """Two classes of 24 noisy pictures, told apart by their colour, in folders for training and for testing."""
    dice = random.Random(1)
    for split, count in (("train", 24), ("test", 6)):
        for number, name in enumerate(("blue", "red")):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for copy in range(count):
                colour = (40 + 120 * number, 60, 160 - 120 * number)
                image = Image.new("RGB", (40, 36), colour)
                for _ in range(60):
                    image.putpixel((dice.randrange(40), dice.randrange(36)), (dice.randrange(256), 0, 0))
                image.save(folder / f"{copy}.png")
    return tmp_path / "photos"


@pytest.mark.long
def test_a_training_gone_on_with_equals_one_that_was_not_cut(photos, tmp_path, capfd, refused):
    words = ["train", "cifar10-small", "--data", f"images:{photos}", "--batch-sizes", "8", "--device", "cpu", "--quiet"]
    words += ["--axis", "image_size=16", "--axis", "optimizer=adamw"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main([*words, "--epochs", "4", "--output", str(whole)]) == 0
    assert main([*words, "--epochs", "4", "--output", str(cut), "--num-workers", "1", "--timeout", "5m"]) == 0
    assert losses_of(cut) == losses_of(whole), "random changes of items hang on seed and epoch, not on who loads them"
    for path in cut.glob("*_4.safetensors"):
        path.unlink()
    shutil.rmtree(cut)

    def stop_after_two(self, ended):
        entry = note(self, ended)
        if ended.number == 2:
            raise KeyboardInterrupt
        return entry

    note = MetricsLog.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "add", stop_after_two)
        assert main([*words, "--epochs", "4", "--output", str(cut)]) == 130
    assert len(losses_of(cut)) == 2
    capfd.readouterr()
    assert "has a training already" in refused(*words, "--output", str(cut))
    assert main(["train", "--resume", str(cut), "--quiet"]) == 0
    assert losses_of(cut) == losses_of(whole), "bit for bit"
    ours, theirs = (load_file(folder / "checkpoint_epoch_4.safetensors") for folder in (whole, cut))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert "4 epochs are done" in refused("train", "--resume", str(cut))
    assert "leave out seed" in refused("train", "--resume", str(cut), "--seed", "3")

    capfd.readouterr()
    assert main(["evaluate", str(whole), "--checkpoint", "last", "--json"]) == 0
    judged = json.loads(capfd.readouterr().out)
    assert (judged["items"], judged["classes"], judged["split"]) == (12, ["blue", "red"], "test")
    with (whole / "test_results" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    truth, answers = ([int(row[key]) for row in rows] for key in ("label", "prediction"))
    assert judged["accuracy"] == sklearn.metrics.accuracy_score(truth, answers)
    assert judged["f1"] == sklearn.metrics.f1_score(truth, answers, average="macro")
    assert judged["confusion_matrix"] == sklearn.metrics.confusion_matrix(truth, answers).tolist()
    assert (whole / "test_results" / "confusion_matrix.png").read_bytes()[:4] == b"\x89PNG"
    assert (whole / "test_results" / "gpu_performance_metrics.csv").read_text().startswith("at_s,metric,value")

    assert main(["evaluate"]) == 0
    said = capfd.readouterr().out
    assert f"training  {cut}\n" in said, "the training gone on with last, wherever --output put it"
    assert "accuracy" in said
    assert "→0" in said
    assert "there are 1, 2, 3, 4, best and last" in refused("evaluate", str(whole), "--checkpoint", "9")
    (photos / "test" / "green").mkdir()
    shutil.copy(photos / "test" / "red" / "0.png", photos / "test" / "green")
    assert "green" in refused("evaluate", str(whole), "--data", str(photos))
    shutil.rmtree(photos / "test" / "green")
    data = (whole / "checkpoint_epoch_4.safetensors").read_bytes()
    (whole / "checkpoint_epoch_4.safetensors").write_bytes(data[: len(data) // 2])
    assert "cannot be read as safetensors" in refused("evaluate", str(whole), "--checkpoint", "4", "--split", "train")


@pytest.mark.long
def test_a_file_for_a_card_is_trained_on_the_cpu_and_says_what_had_no_effect(tmp_path, capfd):
    path = tmp_path / "default.yaml"
    path.write_text("data: {batch_size: 256, num_workers: 0, pin_memory: true}\ntraining: {epochs: 1}\n")
    words = ("--model", "builtin:cnn", "--data", "digits", "--axis", "image_size=8", "--device", "cpu", "--quiet")
    assert main(["train", str(path), *words]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert said.count("note: run: pin_memory=true has no effect on cpu") == 1


def test_a_training_that_does_not_end_well_exits_1_and_says_why(capfd):
    words = ("train", "--model", "builtin:cnn", "--data", "digits", "--batch-sizes", "1000", "--device", "cpu")
    assert main([*words, "--axis", "image_size=8", "--quiet"]) == 1
    assert "items make 1 steps of 1000; an epoch needs at least 2" in " ".join(capfd.readouterr().out.split())


CNN = ("train", "--model", "builtin:cnn")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*CNN], ["synthetic is endless", "--data", "--steps N"]),
        ([*CNN, "--data", "digits", "--batch-sizes", "8,32"], ["one value of batch_size", "8, 32", "torchstone tune"]),
        (["train", "cnn", "--axis", "precision=fp32,bf16"], ["one value of precision", "--axis precision=fp32"]),
        (["train", "smoke"], ["task of this recipe 'train'", "infer"]),
        ([*CNN, "--epochs", "0"], ["--epochs 0", "1 or more"]),
        ([*CNN, "--steps", "0"], ["--steps 0", "1 or more"]),
        ([*CNN, "--epochs", "1", "--steps", "5"], ["--epochs or --steps"]),
        ([*CNN, "--trials", "3"], ["--trials", "train --help"]),
    ],
    ids=lambda value: " ".join(value[-2:]) if value and isinstance(value, list) else None,
)
def test_what_is_no_training_is_refused_in_one_line(refused, words, said):
    line = refused(*words)
    for part in said:
        assert part in line
