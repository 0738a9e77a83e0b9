"""Seed 0, training: `train_pytorch_only.py --config FILE`, its metrics, and the report that it prints.

One short training of a small network on recordings made here; whatever is shown is held against the files beside it.
"""

import csv
import json
import platform
import re
from statistics import fmean

import pytest
import sklearn.metrics
import torch
from acceptance.printed_files import blocks, printed
from safetensors.torch import load_file

FRAMES, JOINTS = 12, 25
SUBJECTS = (101, 102, 103, 104)  # two to learn from, one to judge by, one to test on
GESTURES = range(9)
# Where the seed's lines are in the report of `show --full`: its title there is ours where that is another.
TITLES = {"GPU": "DEVICES"}


def recording(gesture: int, subject: int) -> str:
    """A body that stands, but for one joint, another for each gesture, that rises: 75 numbers a frame."""
    rows = []
    for frame in range(FRAMES):
        joints = [[0.0, 0.0, 2.0] for _ in range(JOINTS)]
        joints[20][1] = 0.5 + 0.001 * (subject - 100)  # from hip to neck
        joints[4 + gesture][1] = frame / FRAMES
        rows.append(",".join(f"{value:.6g}" for joint in joints for value in joint))
    return "\n".join(rows)


CONFIG = """
name: clip_gesture_high_accuracy
task: train
model: builtin:gesture-tiny
data: gesture:recordings
axes: {batch_size: 6, sequence_length: 20, learning_rate: 3e-3}
fit: {epochs: 3, augment: false}
"""


@pytest.fixture(scope="module", autouse=True)
def files(desk):
    for subject in SUBJECTS:
        for gesture in GESTURES:
            for time in (1, 2):
                name = f"recordings/{subject}_18_{gesture}_{time}_1_stand.txt"
                desk.write(name, recording(gesture, subject))
    desk.write("config/config_high_accuracy.yaml", CONFIG)


def metrics(desk, feature_id):
    desk.claimed(feature_id)
    return json.loads((desk.folder / "outputs/trained/training_metrics.json").read_text())


def the_record(desk):
    """Head and only trial, as they lie in the record."""
    (path,) = (desk.folder / "outputs/records").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (trial,) = [line for line in lines if line["record"] == "trial"]
    return lines[0], trial


def raw(trial, metric):
    """The values of each epoch. Of the first the record keeps one step apart, which is its slowest."""
    return [m["values"] for m in trial["measurements"] if m["metric"] == metric and m["stage"] == "steady"]


@pytest.mark.long
def test_a_training_is_driven_by_its_file(desk):
    said = desk.claimed("S0-03").out
    head, trial = the_record(desk)
    (case,) = head["plan"]["cases"]
    assert head["source"]["word"] == "config/config_high_accuracy.yaml"
    assert head["procedure"]["epochs"] == 3
    assert (case["workload"]["task"], case["workload"]["model"]) == ("train", "builtin:gesture-tiny")
    assert {name: case["configuration"][name] for name in ("batch_size", "sequence_length", "learning_rate")} == {
        "batch_size": 6, "sequence_length": 20, "learning_rate": 3e-3,
    }  # fmt: skip
    assert trial["outcome"]["status"] == "ok"
    assert said.startswith("Trained 3 epochs from random weights in ")


def test_every_epoch_has_its_time(desk):
    found = metrics(desk, "S0-04")
    each = [epoch["train_time_s"] for epoch in found["epochs"]]
    assert [epoch["epoch"] for epoch in found["epochs"]] == [1, 2, 3]
    assert found["avg_epoch_time_s"] == pytest.approx(fmean(each))
    _, trial = the_record(desk)
    for epoch, windows in list(zip(found["epochs"], raw(trial, "window_time_s"), strict=True))[1:]:
        assert epoch["train_time_s"] == pytest.approx(sum(windows))
        assert epoch["train_time_s"] == pytest.approx(sum(epoch["batch_times_s"]), rel=0.05)
        assert (epoch["steps"], epoch["items"]) == (6, 36), "two people, nine gestures, each twice, by sixes"


@pytest.mark.long
def test_the_time_spent_loading_data(desk):
    found = metrics(desk, "S0-05")
    _, trial = the_record(desk)
    waits = raw(trial, "data_wait_s")
    for epoch, waited in list(zip(found["epochs"], waits, strict=True))[1:]:
        assert epoch["data_wait_s"] == pytest.approx(sum(waited))
        assert 0.0 < epoch["data_wait_s"] < epoch["train_time_s"]
    (case,) = desk.claimed("S0-05").document["cases"]
    share = sum(map(sum, waits)) / sum(map(sum, raw(trial, "window_time_s")))
    assert case["estimates"]["data_wait_share"]["value"] == pytest.approx(share)


def test_samples_a_second(desk):
    found = metrics(desk, "S0-07")
    assert found["throughput"] == pytest.approx(3 * 36 / sum(epoch["train_time_s"] for epoch in found["epochs"]))
    _, trial = the_record(desk)
    (case,) = desk.claimed("S0-07").document["cases"]
    rate = sum(map(sum, raw(trial, "items"))) / sum(map(sum, raw(trial, "window_time_s")))
    assert case["estimates"]["throughput"]["value"] == pytest.approx(rate)
    assert case["estimates"]["throughput"]["unit"] == "items/s"


def test_the_total_runtime_in_seconds_and_minutes(desk):
    shown = blocks(desk.claimed("S0-46").out)["TOTAL RUNTIME"]
    _, trial = the_record(desk)
    (line,) = shown
    seconds, minutes = re.findall(r"[\d.]+", line)[:2]
    assert float(seconds) == pytest.approx(trial["duration_s"], abs=0.005)
    assert float(minutes) == pytest.approx(trial["duration_s"] / 60, abs=0.005)
    told = metrics(desk, "S0-46")
    spans = [epoch["ended_s"] - epoch["began_s"] for epoch in told["epochs"]]
    assert told["total_runtime_minutes"] == pytest.approx(sum(spans) / 60)
    assert told["total_runtime_minutes"] * 60 < trial["duration_s"], "which starts the process, too"


def test_the_report_has_the_blocks_that_the_seed_prints(desk):
    full = desk.claimed("S0-39").out
    seed, ours = blocks(printed("s0_training_report.txt")), blocks(full)
    assert list(seed) == ["SYSTEM", "GPU", "MODEL", "DATA", "TRAINING", "THROUGHPUT", "TOTAL RUNTIME"]
    assert set(ours) >= {TITLES.get(title, title) for title in seed}
    assert "BENCHMARK REPORT: clip_gesture_high_accuracy" in full
    assert "BENCHMARK REPORT: clip_gesture_high_accuracy" in printed("s0_training_report.txt")
    assert ours["SYSTEM"]["Platform"] == platform.platform()
    assert any(line.startswith(f"torch {torch.__version__}, ") or f", torch {torch.__version__}" in line
               for line in ours["SYSTEM"])  # fmt: skip
    (device,) = [value for name, value in ours["DEVICES"].items() if name == "cpu"]
    assert re.search(r"vendor \S+.*memory [\d.]+ GiB", device)
    saved = load_file(desk.folder / "outputs/trained/checkpoint_epoch_3.safetensors")
    count = sum(tensor.numel() for tensor in saved.values())
    assert ours["MODEL"]["builtin"].startswith(f"gesture-tiny: {count:,} parameters")
    assert next(line for line in ours["THROUGHPUT"] if line.startswith("throughput ")).split()[2] == "items/s"


def test_the_block_of_the_data(desk):
    block = desk.claimed("S0-43").out.partition("[DATA]\n")[2].partition("\n\n")[0]
    line = " ".join(block.split())
    assert line.startswith("gesture:")
    assert line.endswith("recordings: 36 items, 18 held out, 9 classes, sequence length 20")
    assert line.count(" items") == 1


def test_the_block_of_the_training_has_epochs_and_accuracies(desk):
    lines = [line.split() for line in blocks(desk.claimed("S0-44").out)["TRAINING"]]
    shown = {words[0]: words[1] for words in lines if len(words) > 1}  # others go on with a meaning
    told = metrics(desk, "S0-44")
    assert shown["epochs"] == "3"
    assert f"(best: {told['best_epoch']})" in desk.claimed("S0-44").out
    assert shown["final_train_accuracy"] == f"{told['final_train_accuracy']:.2%}"
    assert shown["final_val_accuracy"] == f"{told['final_val_accuracy']:.2%}"
    assert "epoch_time_s" in shown
    last = told["epochs"][-1]
    assert (told["final_train_accuracy"], told["final_val_accuracy"]) == (last["train_accuracy"], last["val_accuracy"])
    assert (18 * told["final_train_accuracy"]).is_integer(), "of as many items as are held out"


@pytest.mark.long
def test_accuracies_are_those_of_scikit_learn(desk):
    told = metrics(desk, "S0-23")
    judged = desk.claimed("S0-23").document
    assert (judged["items"], judged["split"]) == (18, "validation")
    with (desk.folder / "outputs/trained/test_results/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    truth, answers = ([int(row[key]) for row in rows] for key in ("label", "prediction"))
    assert judged["accuracy"] == sklearn.metrics.accuracy_score(truth, answers) == told["final_val_accuracy"]
    tested = desk.claimed("S0-24").document
    assert (tested["items"], tested["split"]) == (18, "test")
    with (desk.folder / "outputs/trained/test_results/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tested["accuracy"] == fmean(row["label"] == row["prediction"] for row in rows)


def test_the_file_says_by_its_name_on_what_and_when(desk):
    desk.claimed("S0-51")
    head, _ = the_record(desk)
    (path,) = (desk.folder / "outputs").glob("benchmark_*.json")
    moment = re.sub(r"[-:]", "", head["started_utc"][:19]).replace("T", "_")
    assert path.name == f"benchmark_cpu_{moment}.json", "which the seed writes benchmark_<gpu_type>_<timestamp>.json"
    assert json.loads(path.read_text())["head"]["run_id"] == head["run_id"]


def test_versions_are_in_the_record_and_in_the_document(desk):
    desk.claimed("S0-58")
    head, _ = the_record(desk)
    (path,) = (desk.folder / "outputs").glob("benchmark_*.json")
    for machine in (head["machine"], json.loads(path.read_text())["head"]["machine"]):
        assert machine["software"]["torch"] == torch.__version__
        assert machine["software"]["python"] == platform.python_version()
        assert {"cuda", "rocm"} <= set(machine["software"])


def test_few_trials_and_few_steps_are_said(desk):
    found = desk.claimed("S0-55").document["cases"][0]["findings"]
    said = {one["check"]: f"{one['message']}; {one['advice']}" for one in found}
    assert said["few_trials"].startswith("one trial: the variation between trials is not known; a training is")
    assert "`torchstone run` measures the same settings in 3 trials" in said["few_trials"]
