"""Seed 0, inference: `benchmark_inference.py --model CHECKPOINT …`, its flags, its metrics, and its report.

One run of a small network with the weights of a file; figures are held against the raw values of the record.
"""

import hashlib
import json
import math
import re
from statistics import fmean, median

import numpy as np
import pytest
import torch
from acceptance.feature_rows import row_of
from acceptance.printed_files import blocks, printed

CHECKPOINT = "outputs/clip_gesture_model_pytorch.pth"
# The seed's line → the figure that says it.
FIGURES = {
    "Total predictions": "total_items", "Total batches": "steps", "Avg predictions/sec": "throughput",
    "Avg time per prediction": "time_per_item_s", "P50 latency": "latency_per_batch_p50_s",
    "P95 latency": "latency_per_batch_p95_s", "P99 latency": "latency_per_batch_p99_s",
    "Min latency": "latency_per_batch_min_s", "Max latency": "latency_per_batch_max_s",
    "Avg time to first prediction": "time_to_first_prediction_s",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def checkpoint(desk):
    from torchstone.plugins.models.builtin.nets import GestureNet

    torch.manual_seed(7)
    path = desk.folder / CHECKPOINT
    path.parent.mkdir()
    torch.save(GestureNet(96, 2).state_dict(), path)


def cases_of(desk, feature_id):
    """Each Case of the run, with its trials as the record has them."""
    document = desk.claimed(feature_id).document
    (path,) = (desk.folder / "outputs/records").glob(f"{document['run_id']}.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    trials = [line for line in lines if line["record"] == "trial"]
    return [(case, [t for t in trials if t["case_id"] == case["case_id"]]) for case in document["cases"]]


def raw(trial, metric, window=None, stage="steady"):
    found = [m["values"] for m in trial["measurements"]
             if (m["metric"], m["stage"]) == (metric, stage) and window in (None, m["window"])]  # fmt: skip
    return [value for values in found for value in values]


def paired(case, trials):
    """The figures that the document has of each trial, beside its raw values."""
    by_id = {trial["trial_id"]: trial for trial in trials}
    return [(one["figures"]["values"], by_id[one["trial_id"]]) for one in case["trials"]]


@pytest.mark.long
def test_the_weights_of_the_file_are_what_is_measured(desk):
    digest = hashlib.sha256((desk.folder / CHECKPOINT).read_bytes()).hexdigest()
    for case, trials in cases_of(desk, "S0-08"):
        assert digest.startswith(case["workload"]["fixed"]["weights_sha256"])
        assert all(trial["facts"]["weights"] == "file" for trial in trials)
        assert case["workload"]["task"] == "infer"


def test_a_file_alone_is_refused_with_what_to_type(desk):
    line = row_of("S0-08").printed[0].partition("--model ")[2].split()[0]
    said = desk.type(f"torchstone run --task infer --model {line}", code=2)
    assert said.err.startswith(f"torchstone: model {CHECKPOINT}: weights do not name their network; write")
    assert f"builtin:NAME@{CHECKPOINT}" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.long
def test_the_device_is_the_one_that_was_named(desk):
    assert {case["placement"]["device"] for case, _ in cases_of(desk, "S0-62")} == {"cpu"}


def test_warm_up_is_as_long_as_asked_for_at_least(desk):
    for _, trials in cases_of(desk, "S0-10"):
        for trial in trials:
            assert trial["facts"]["warmup_steps"] >= 3
            assert len(raw(trial, "step_time_s", stage="warmup")) == trial["facts"]["warmup_steps"]


def test_so_many_iterations_are_measured(desk):
    for _, trials in cases_of(desk, "S0-11"):
        for trial in trials:
            assert len(raw(trial, "latency_s", "latency")) == 8
            assert len(raw(trial, "step_time_s", "throughput")) == 8


def test_batch_sizes_are_any_numbers(desk):
    sizes = [int(size) for size in re.findall(r"--batch-sizes ([\d,]+)", row_of("S0-13").typed[0])[0].split(",")]
    found = cases_of(desk, "S0-13")
    assert [case["configuration"]["batch_size"] for case, _ in found] == sizes
    assert any(size & (size - 1) for size in sizes), "no power of two among them"
    for case, trials in found:
        assert {items for trial in trials for items in raw(trial, "items")} == {case["configuration"]["batch_size"]}


def test_predictions_a_second(desk):
    for case, trials in cases_of(desk, "S0-25"):
        rates = []
        for figures, trial in paired(case, trials):
            rates.append(sum(raw(trial, "items", "throughput")) / raw(trial, "window_time_s", "throughput")[0])
            assert figures["throughput"] == pytest.approx(rates[-1])
        assert case["estimates"]["throughput"]["value"] == pytest.approx(math.exp(fmean(map(math.log, rates))))


def test_the_time_of_a_prediction(desk):
    for case, trials in cases_of(desk, "S0-26"):
        for figures, trial in paired(case, trials):
            seconds, items = raw(trial, "window_time_s", "throughput")[0], sum(raw(trial, "items", "throughput"))
            assert figures["time_per_item_s"] == pytest.approx(seconds / items)
            closed = np.array(raw(trial, "latency_s", "latency")) / np.array(raw(trial, "items", "latency"))
            assert figures["latency_per_item_s"] == pytest.approx(np.median(closed))


def test_the_time_to_the_first_prediction(desk):
    for case, trials in cases_of(desk, "S0-27"):
        for figures, trial in paired(case, trials):
            assert [figures["time_to_first_prediction_s"]] == raw(trial, "first_step_time_s", stage="setup")


def test_percentiles_and_ends_of_the_latency_of_a_batch(desk):
    for case, trials in cases_of(desk, "S0-28"):
        for figures, trial in paired(case, trials):
            times = raw(trial, "latency_s", "latency")
            assert figures["latency_per_batch_p50_s"] == pytest.approx(median(times))
            for name, share in (("p95", 95), ("p99", 99)):
                exact = np.percentile(times, share, method="inverted_cdf")
                assert figures[f"latency_per_batch_{name}_s"] == pytest.approx(exact)
            assert figures["latency_per_batch_min_s"] == min(times)
            assert figures["latency_per_batch_max_s"] == max(times)
            assert figures["latency_per_batch_mean_s"] == pytest.approx(np.mean(times))
        assert not case["estimates"]["latency_per_batch_p95_s"]["supported"], "of 8 answers"


def test_predictions_and_batches_in_all(desk):
    for case, trials in cases_of(desk, "S0-32"):
        for figures, trial in paired(case, trials):
            assert figures["steps"] == len(raw(trial, "latency_s")) + len(raw(trial, "step_time_s", "throughput"))
            assert figures["total_items"] == sum(map(sum, (raw(trial, "items", w) for w in ("latency", "throughput"))))
            assert figures["total_items"] == figures["steps"] * case["configuration"]["batch_size"]


def test_the_report_says_all_that_the_seed_prints(desk):
    shown, seed = desk.claimed("S0-47").out, blocks(printed("s0_inference_report.txt"))
    assert set(seed["INFERENCE PERFORMANCE"]) == set(FIGURES)
    of_cases = shown.split("\n── ")[1:]
    assert len(of_cases) == 2
    for part in of_cases:
        ours = blocks(part)
        told = {line.split()[0]: title for title, lines in ours.items() for line in lines}
        assert set(FIGURES.values()) <= set(told)
        latencies = [name for name in FIGURES.values() if "latency" in name or "first" in name]
        assert {told[name] for name in latencies} == {"INFERENCE PERFORMANCE"}


@pytest.mark.long
def test_the_flags_as_printed(desk):
    flags = row_of("S0-12").printed[0].partition("--warmup")[2]
    assert f"--warmup{flags}" in row_of("S0-12").typed[0]
    document = desk.claimed("S0-12").document
    assert [case["configuration"]["batch_size"] for case in document["cases"]] == [1, 2, 4, 8, 16, 32, 64]
    for case in document["cases"]:
        found = case["estimates"]
        assert found["steps"]["value"] == 2 * 200
        assert found["latency_per_batch_p95_s"]["supported"], "of 200 answers"
        assert not found["latency_per_batch_p99_s"]["supported"], "of which two are beyond it"
    assert all(trial["facts"]["warmup_steps"] >= 20 for case in document["cases"] for trial in case["trials"])
