"""Seed 1, fine-tuning: from a folder of weights on brain scans, a checkpoint an epoch, tested, with every file."""

import csv
import json
import re

import numpy as np
import pytest
from acceptance import seed_images
from acceptance.feature_rows import row_of
from acceptance.svg_curves import is_drawn
from safetensors.numpy import load_file
from sklearn import metrics

HUO = "outputs_finetune_huo_20250407_215953"
JIN = "outputs_finetune_jin_20250408_113959"


@pytest.fixture(scope="module", autouse=True)
def _scans(desk):
    seed_images.brain_scans(desk.folder / "brain-tumor-mri")


@pytest.fixture(scope="module")
def trained(desk, _scans):
    """What `train` printed."""
    seed_images.vit(desk.folder / "vit")
    return desk.claimed("S1-37")


@pytest.fixture(scope="module")
def judged(desk, trained):
    """What `evaluate` printed for people; typed first, since the files that are read here are those of --json."""
    return desk.type(row_of("S1-42").typed[1]).out


@pytest.fixture(scope="module")
def tested(desk, judged):
    """What `evaluate` printed as JSON."""
    return desk.claimed("S1-40").document


def told(desk, folder=HUO):
    return json.loads((desk.folder / folder / "training_metrics.json").read_text(encoding="utf-8"))


def predictions(desk):
    with (desk.folder / HUO / "test_results" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [int(row["label"]) for row in rows], [int(row["prediction"]) for row in rows]


def gauge_rows(desk):
    path = desk.folder / HUO / "test_results" / "gpu_performance_metrics.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_s1_37_the_weights_are_those_of_the_folder_and_the_head_is_new(desk, trained):
    assert "from the folder's weights" in trained.out
    given = seed_images.weights(desk.folder / "vit")
    for epoch in (1, 2):
        saved = load_file(desk.folder / HUO / f"checkpoint_epoch_{epoch}.safetensors")
        assert saved.keys() == given.keys()
        assert saved["classifier.weight"].shape == (4, 32), "four diagnoses; the folder's head has seven classes"
        moved = [float(np.max(np.abs(saved[name] - given[name]))) for name in given if "classifier" not in name]
        assert 0 < max(moved) < 2e-3, "a few steps at 2e-5 from what the folder holds; random ones lie 0.02 apart"


def test_s1_37_without_weights_it_stops_with_the_line_to_type(desk):
    line = desk.type("torchstone train finetune-mri --data brain-tumor-mri --output nowhere", code=2).err
    assert len(line.splitlines()) == 1
    for part in ("google/vit-base-patch16-224", "--model hf:FOLDER", "--option weights=random", "HF_HUB_OFFLINE"):
        assert part in line
    assert not (desk.folder / "nowhere").exists()


@pytest.mark.long
def test_s1_38_training_metrics_json(desk, trained):
    found = told(desk)
    assert [epoch["epoch"] for epoch in found["epochs"]] == [1, 2]
    for epoch in found["epochs"]:
        assert epoch["items"] == 4 * epoch["steps"] == 32, "eight scans of each of four diagnoses"
        assert epoch["train_loss"] > 0
        assert epoch["val_loss"] > 0
        assert 0 <= epoch["train_accuracy"] <= 1
        assert epoch["val_accuracy"] * 16 == pytest.approx(round(epoch["val_accuracy"] * 16)), "16 scans to test on"
        assert len(epoch["batch_times_s"]) == epoch["steps"]
        assert sum(epoch["batch_times_s"]) <= epoch["train_time_s"] * 1.001
    assert found["final_val_accuracy"] == found["epochs"][-1]["val_accuracy"]
    assert {series["metric"] for series in found["telemetry"]} >= {"rss_bytes", "process_cpu_s"}


@pytest.mark.long
def test_s1_40_and_41_a_folder_and_a_checkpoint_as_the_seed_types_them(desk, tested):
    assert tested["epoch"] == 2
    assert (tested["items"], tested["split"]) == (16, "test")
    assert tested["accuracy"] == told(desk)["epochs"][1]["val_accuracy"], "judged on the same scans after that epoch"


@pytest.mark.long
def test_s1_41_what_is_not_there_is_refused_with_what_is(desk, trained):
    line = desk.type(f"torchstone evaluate --model_dir {HUO} --checkpoint checkpoint_epoch_20.pt", code=2).err
    assert len(line.splitlines()) == 1
    assert "there are 1, 2, best and last" in line
    assert "checkpoint_epoch_2.safetensors" in line


@pytest.mark.long
def test_s1_42_to_46_quality_is_what_scikit_learn_makes_of_the_predictions(desk, tested):
    truth, answers = predictions(desk)
    assert len(truth) == 16
    assert tested["classes"] == list(seed_images.DIAGNOSES)
    assert tested["accuracy"] == pytest.approx(metrics.accuracy_score(truth, answers))
    how = {"labels": sorted({*truth, *answers}), "average": "macro", "zero_division": 0.0}
    assert tested["precision"] == pytest.approx(metrics.precision_score(truth, answers, **how))
    assert tested["recall"] == pytest.approx(metrics.recall_score(truth, answers, **how))
    assert tested["f1"] == pytest.approx(metrics.f1_score(truth, answers, **how))
    assert tested["confusion_matrix"] == metrics.confusion_matrix(truth, answers, labels=range(4)).tolist()
    assert sum(map(sum, tested["confusion_matrix"])) == 16


@pytest.mark.long
def test_s1_42_to_46_quality_is_printed_as_it_is_in_the_file(judged, tested):
    words = {"Accuracy": "accuracy", "accuracy": "accuracy", "precision": "precision", "recall": "recall", "F1": "f1"}
    for word, figure in words.items():
        found = re.search(rf"\b{word} +([\d.]+) %", judged)
        assert found, f"{word} is not printed"
        assert float(found[1]) == pytest.approx(100 * tested[figure], abs=0.006)
    rows = {line.split()[1]: line.split()[-4:] for line in judged.splitlines() if line.split()[1:2] and "%" in line}
    for name, counts in zip(tested["classes"], tested["confusion_matrix"], strict=True):
        assert rows[name] == list(map(str, counts)), "what its scans were taken for"


@pytest.mark.long
def test_s1_47_to_49_gauges_during_the_test(desk, tested):
    rows = gauge_rows(desk)
    assert {"at_s", "metric", "value", "source", "device"} == set(rows[0])
    resident = [float(row["value"]) for row in rows if row["metric"] == "rss_bytes"]
    kept = json.loads((desk.folder / HUO / "test_results" / "test_metrics.json").read_text(encoding="utf-8"))
    assert kept == tested, "the file holds what --json prints"
    assert kept["gauges"]["rss_bytes"] == {
        "mean": pytest.approx(np.mean(resident)), "least": min(resident), "most": max(resident),
        "readings": len(resident),
    }  # fmt: skip
    assert "process_cpu_s" not in kept["gauges"], "the mean of a counter says nothing"


@pytest.mark.long
def test_s1_50_the_confusion_matrix_is_a_picture(desk, tested):
    from PIL import Image

    with Image.open(desk.folder / HUO / "test_results" / "confusion_matrix.png") as image:
        assert image.format == "PNG"
        assert min(image.size) > 300


@pytest.mark.long
def test_s1_39_the_latest_training_without_being_named(desk, tested):
    """The seed takes the checkpoint of epoch 10; here it is the best one."""
    found = desk.claimed("S1-39").document
    (folder,) = (desk.folder / "outputs" / "training").iterdir()
    made = json.loads((folder / "training_metrics.json").read_text(encoding="utf-8"))
    assert found["run_id"] == made["run_id"] != told(desk)["run_id"]
    assert found["epoch"] == made["best_epoch"]


@pytest.mark.long
def test_s1_37_random_weights_are_taken_where_they_are_asked_for(desk, tested):
    desk.claimed("S1-39")
    assert "from random weights" in desk.type(row_of("S1-39").typed[0]).out


@pytest.mark.long
def test_s1_66_curves_of_trainings_that_were_made_here(desk, tested):
    """Two real trainings on a CPU: how many cores they kept busy and what memory they held, over time."""
    desk.type(row_of("S1-37").typed[0].replace(HUO, JIN))
    desk.type(f"torchstone compare {HUO} {JIN} --figures real")
    plots = desk.folder / "real" / "analysis_results" / "plots"
    cores, memory = ((plots / f"comparison_{what}.svg").read_text() for what in ("utilization", "memory"))
    assert "CPU cores in use" in cores
    for folder in (HUO, JIN):
        assert f">{folder} - Train</text>" in cores
        read = {one["metric"]: (one["at_s"], one["values"]) for one in told(desk, folder)["telemetry"]}
        assert is_drawn(memory, *read["rss_bytes"])
        at_s, used_s = map(np.array, read["process_cpu_s"])
        assert is_drawn(cores, ((at_s[1:] + at_s[:-1]) / 2).tolist(), (np.diff(used_s) / np.diff(at_s)).tolist())
