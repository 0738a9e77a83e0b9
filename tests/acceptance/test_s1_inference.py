"""Seed 1, inference: three data sets over batch sizes, on small models, and the CSV that each run leaves."""

import csv
import json
import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pictures
import pytest
from acceptance import seed_images
from acceptance.feature_rows import row_of
from build import a_case, a_machine, a_run, a_trial

from torchstone.analysis.rows import case_rows
from torchstone.config.recipe_files import load_request
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import FIGURES

SIZES = [1, 8, 16, 32, 64, 128]
ANSWER = re.compile(
    r"Fastest: batch_size (\d+), ([\d,.]+) images/s \(95 % confidence interval ([\d,.]+) to ([\d,.]+)\)"
)
FRAGILE = """
import torch


class Fragile(torch.nn.Module):
    def forward(self, x):
        if len(x) > 8:
            raise RuntimeError("too large a batch")
        return x * 2


def load():
    return Fragile(), torch.zeros(1, 3)
"""


@pytest.fixture(scope="module", autouse=True)
def _on_disk(desk):
    seed_images.cifar10(desk.folder / "cifar-10-batches-bin")
    pictures.imagenet100(desk.folder / "imagenet100")
    pictures.food101(desk.folder / "food-101")
    pictures.class_folders(desk.folder / "photos", each=3)
    desk.write("fragile.py", FRAGILE)


def table(desk, name, rows="cases"):
    """The table of a run, read again by the csv module."""
    path = desk.folder / desk.type(f"torchstone export {name} --rows {rows} --to {name}-{rows}.csv").out.strip()
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def cases(desk, _on_disk):
    desk.claimed("S1-01")
    return table(desk, "vit-cifar10")


@pytest.fixture(scope="module")
def samples(desk, cases):
    """Raw values of every trial by metric and window: run → trial → (metric, window) → numbers."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table(desk, "vit-cifar10", "samples"):
        if row["stage"] == "steady" and row["phase"] == "":
            found[row["case_id"], row["trial_id"]][row["metric"], row["window"]].append(float(row["value"]))
    return found


def of_trials(desk, samples, case_id):
    """(the row of the table of trials, its raw values) of a case."""
    rows = [row for row in table(desk, "vit-cifar10", "trials") if row["case_id"] == case_id]
    return [(row, samples[case_id, row["trial_id"]]) for row in rows]


@pytest.mark.long
def test_s1_01_and_04_all_10_000_test_images_of_cifar_10(cases):
    assert {(row["dataset_items"], row["dataset_split"]) for row in cases} == {("10000", "test")}
    assert all(row["dataset"].startswith("cifar10:") for row in cases)


@pytest.mark.long
def test_s1_10_batch_1_to_128(cases):
    assert [int(row["batch_size"]) for row in cases] == SIZES, "nobody named them: they are the recipe's"
    assert {row["ok"] for row in cases} == {"2"}


@pytest.mark.parametrize("name", ["vit-cifar10", "vit-imagenet100", "vit-food101"])
def test_s1_10_over_every_data_set(name):
    (work,) = load_request(name).workloads
    assert (work.model, work.data) == ("hf:google/vit-base-patch16-224", name.removeprefix("vit-"))
    assert (work.axes["batch_size"], work.axes["image_size"]) == (tuple(SIZES), (224,))


@pytest.mark.long
def test_s1_17_to_24_the_columns_of_the_csv(desk, cases):
    left = desk.folder / "outputs" / "data" / f"{cases[0]['run_id']}_cases.csv"  # S1-11, S1-15: each run leaves one
    with left.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == cases
    gauges = ("peak_allocated_bytes", "device_utilization", "device_temperature_c", "average_power_w")
    for row, size in zip(cases, SIZES, strict=True):
        assert re.fullmatch(r"cifar10:(.*/)?cifar-10-batches-bin", row["dataset"])
        assert (row["dataset_split"], row["dataset_items"], row["batch_size"]) == ("test", "10000", str(size))
        assert row["host"] in left.read_text(encoding="utf-8")
        assert row["started_utc"].startswith("20")
        assert row["device_name"]
        for name in ("dataset_time_s", "total_time_s", "throughput", "latency_per_batch_mean_s"):
            assert float(row[name]) > 0
        assert 0 < float(row["latency_per_batch_p95_s"]) <= float(row["latency_per_batch_p99_s"])
        assert all(row[name] == "" for name in gauges[1:]), "what no gauge of a CPU tells is empty, never 0"
        assert set(gauges) <= set(row)


@pytest.mark.long
def test_s1_11_every_figure_of_the_run_is_a_column(desk, cases):
    shown = desk.type("torchstone show vit-cifar10 --json").document["cases"]
    for row, case in zip(cases, shown, strict=True):
        told = {name: estimate["value"] for name, estimate in case["estimates"].items()}
        assert len(told) > 20
        assert {name: float(row[name]) for name in told} == told
        assert row["verdict"] == case["verdict"]


@pytest.mark.long
def test_s1_11_the_csv_can_be_asked_for_again(desk, cases):
    said = desk.type("torchstone export vit-cifar10 --format csv").out.strip()
    assert said == str(desk.folder / "outputs" / "data" / f"{cases[0]['run_id']}_cases.csv")
    with Path(said).open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == cases


@pytest.mark.long
def test_s1_20_images_a_second_are_images_over_time(desk, cases, samples):
    for case in cases:
        rates = []
        for row, raw in of_trials(desk, samples, case["case_id"]):
            images_, time_s = sum(raw["items", "throughput"]), sum(raw["window_time_s", "throughput"])
            assert images_ == len(raw["items", "throughput"]) * int(case["batch_size"])
            rates.append(images_ / time_s)
            assert float(row["throughput"]) == pytest.approx(rates[-1])
        assert float(case["throughput"]) == pytest.approx(math.exp(np.mean(np.log(rates))), rel=1e-6)


@pytest.mark.long
def test_s1_19_time_of_the_whole_data_set_and_that_of_the_windows_are_told_apart(desk, cases, samples):
    for case in cases:
        for row, raw in of_trials(desk, samples, case["case_id"]):
            windows_s = sum(sum(values) for (metric, _), values in raw.items() if metric == "window_time_s")
            assert float(row["total_time_s"]) == pytest.approx(windows_s)
            rate = sum(raw["items", "throughput"]) / sum(raw["window_time_s", "throughput"])
            assert float(row["dataset_time_s"]) == pytest.approx(10_000 / rate)
    shown = " ".join(desk.type("torchstone show vit-cifar10 --full").out.split())
    assert "expected time of inference over the data set at this rate" in shown
    assert "epoch_time_s" not in shown, "inference has no epochs"


@pytest.mark.long
def test_s1_09_and_24_latency_average_p95_and_p99_are_those_of_the_raw_values(desk, cases, samples):
    for case in cases:
        for row, raw in of_trials(desk, samples, case["case_id"]):
            times = raw["latency_s", "latency"]
            assert len(times) >= 4
            assert float(row["latency_per_batch_mean_s"]) == pytest.approx(np.mean(times))
            assert float(row["latency_per_batch_p50_s"]) == pytest.approx(np.median(times))
            for name, q in (("p95", 0.95), ("p99", 0.99)):
                measured = np.quantile(times, q, method="inverted_cdf")
                assert float(row[f"latency_per_batch_{name}_s"]) == pytest.approx(measured)


@pytest.mark.long
def test_s1_14_one_command_prints_the_answer_first(desk, cases):
    said = desk.claimed("S1-14").out
    answer = " ".join(said.split("\n\n")[0].split())
    ends = ("", "_low", "_high")
    believed = [row for row in cases if row["verdict"] == "VALID"]
    rates = {row["batch_size"]: [float(row[f"throughput{end}"]) for end in ends] for row in believed}
    known = {
        size: value for size, (value, low, high) in rates.items()
        if max(high - value, value - low) <= 0.5 * value
    }  # fmt: skip
    if len(known) < 2:
        assert answer.startswith(("Which is fastest is not known", "Only batch_size ")), (
            "too few steps, or a busy machine"
        )
    else:
        found = ANSWER.match(answer)
        assert found, answer
        assert found[1] == max(known, key=lambda size: known[size])
        told = [float(number.replace(",", "")) for number in found.groups()[1:]]
        assert told == pytest.approx(rates[found[1]], rel=0.006), "three digits of what the CSV says"


@pytest.mark.long
def test_s1_14_one_command_leaves_record_document_and_csv_and_says_where(desk, cases):
    said = desk.claimed("S1-14").out
    left = {what: Path(at) for what, at in re.findall(r"^(record|document|table) +(\S+)$", said, re.MULTILINE)}
    assert left.keys() == {"record", "document", "table"}
    record = [json.loads(line) for line in left["record"].read_text(encoding="utf-8").splitlines()]
    assert sum(line["record"] == "trial" for line in record) == 2 * len(SIZES)
    assert len(json.loads(left["document"].read_text(encoding="utf-8"))["trials"]) == 2 * len(SIZES)
    with left["table"].open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == cases


@pytest.mark.parametrize(("feature", "name", "items", "split"), [
    ("S1-02", "vit-imagenet100", 3, "validation"), ("S1-03", "vit-food101", 2, "test"),
])  # fmt: skip
@pytest.mark.long
def test_s1_02_and_03_the_other_two_data_sets(desk, feature, name, items, split):
    desk.claimed(feature)
    rows = table(desk, name)
    assert [(int(row["dataset_items"]), row["dataset_split"]) for row in rows] == [(items, split)] * 2


@pytest.mark.long
def test_s1_04_a_limit_is_asked_for(desk):
    (case,) = desk.claimed("S1-04").document["cases"]
    assert case["trials"][0]["facts"]["dataset_items"] == 7


@pytest.mark.long
def test_s1_12_nvtx_says_why_it_is_off_without_a_card(desk):
    (case,) = desk.claimed("S1-12").document["cases"]
    assert case["trials"][0]["facts"]["nvtx"]["id"] == "nvtx_off"


@pytest.mark.long
def test_s1_16_a_configuration_that_fails_stops_no_other(desk):
    done = desk.claimed("S1-16")
    ends = {
        case["configuration"]["batch_size"]: {trial["outcome"]["status"] for trial in case["trials"]}
        for case in done.document["cases"]
    }
    assert ends == {1: {"ok"}, 8: {"ok"}, 16: {"crashed"}, 4: {"ok"}}
    rows = table(desk, "fragile")
    assert {row["batch_size"]: row["crashed"] for row in rows}["16"] == "2"


@pytest.mark.long
def test_s1_31_vit_base_with_images_of_224_pixels(desk):
    (case,) = desk.claimed("S1-31").document["cases"]
    assert case["workload"]["model"] == "hf:google/vit-base-patch16-224"
    assert case["configuration"]["image_size"] == 224
    assert case["trials"][0]["facts"]["parameters"] == 86_567_656, "as published, with its head of 1,000 classes"
    assert case["trials"][0]["outcome"]["status"] == "ok"


@pytest.mark.long
def test_s1_33_other_models_on_other_data(desk):
    (case,) = desk.claimed("S1-33").document["cases"]
    assert case["workload"]["data"].startswith("images:")
    assert case["trials"][0]["facts"]["dataset_items"] == 6


def test_s1_34_metrics_are_listed_with_their_meaning_and_unit(desk):
    said = desk.claimed("S1-34").out
    for name in ("throughput", "dataset_time_s", "energy_per_item_j", "roofline_share", "time_to_first_token_p50_s"):
        assert re.search(rf"(?m)^ *{name} ", said)
    assert "(items/s)" in said
    words = " ".join(said.split())
    assert all(f" {one.name} {one.meaning} ({one.unit})" in words for one in FIGURES.values())


def test_s1_69_what_the_machine_lacks_is_said(desk):
    here = desk.claimed("S1-69").document
    kinds = {device["kind"] for device in here["machine"]["devices"]}
    assert "cpu" in kinds
    assert kinds | set(here["missing"]) >= {"cuda", "rocm", "mps", "xpu"}
    assert all(here["missing"].values())
    if "cuda" in here["missing"]:
        asked = r"driver could not be asked \(|no NVIDIA driver found \(NVML: |NVIDIA driver \S+ is there"
        assert re.search(asked, here["missing"]["cuda"])
    printed = desk.type(row_of("S1-69").typed[0]).out
    block = re.search(r"^not here\n((?:.+\n)+)", printed, re.MULTILINE)
    assert block, printed
    told = "".join(f"{kind} {why} " for kind, why in here["missing"].items())
    assert block[1].split() == told.split()


def test_s1_25_the_card_is_in_every_row():
    cards = tuple(
        DeviceInfo(kind, kind if kind == "cpu" else "cuda", "AMD", index, name, memory, compute_capability=capability)
        for kind, index, name, memory, capability in (
            ("cpu", 0, "a processor", None, None), ("rocm", 0, "Radeon RX 7900 XT", 20 * 2**30, "11.0"),
            ("rocm", 1, "Radeon RX 7900 XTX", 24 * 2**30, "11.0"),
        )
    )  # fmt: skip
    case = a_case(placement=Placement("rocm", 1))
    run = a_run([a_trial(case_id=case.case_id)], cases=[case], machine=a_machine(devices=cards))
    (row,) = case_rows(run)
    assert (row["device_name"], row["device_memory_bytes"]) == ("Radeon RX 7900 XTX", 24 * 2**30)
    assert row["compute_capability"] == "11.0"


def test_s1_13_the_line_for_nsys_is_on_the_page_word_for_word(desk):
    from acceptance.feature_rows import PAGE

    page = (PAGE.parent / "anatomy.md").read_text(encoding="utf-8")
    assert "nsys profile --trace=cuda,nvtx,cudnn,osrt --stats=true" in page
    assert json.dumps("--nvtx") in json.dumps(desk.type("torchstone run --help-all").out.split())
