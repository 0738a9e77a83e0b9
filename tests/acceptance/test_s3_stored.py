"""Seed S3: what is stored, recommended and drawn, from records of other machines, and the seed's own JSON."""

import json
import re
import shutil
from pathlib import Path
from statistics import geometric_mean
from xml.etree import ElementTree as ET

import msgspec
import pytest
from acceptance.conftest import Desk
from build import a_case, a_machine, a_trial, peaks_of
from comparable import a_gpu, write_record
from comparable import a_stored_run as a_gpu_run
from stored import a_stored_run, case, machine, store

from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.trial import Series

PRINTED = Path(__file__).parent / "printed" / "s3_training_benchmark_results.json"
SIZES = (8, 16, 32)
AT_S = tuple(2.0 + 0.01 * place for place in range(8))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A machine without and one with a card, three batch sizes each, on a desk of their own."""
    desk = Desk(tmp_path_factory.mktemp("stored"))
    slow = [(case(batch_size=size), 100.0 + 20 * place) for place, size in enumerate(SIZES)]
    fast = [(case("cuda", batch_size=size), 1000.0 + 500 * place) for place, size in enumerate(SIZES)]
    store(desk.folder / "outputs", [
        a_stored_run(1, slow, machine()), a_stored_run(2, fast, machine("cuda", host="gpubox")),
    ])  # fmt: skip
    return desk


def test_s3_46_and_57_hardware_is_recommended_and_compared(stored):
    (found,) = stored.claimed("S3-46").document["hardware"]
    assert (found["family"], found["task"], found["recommended"]) == ("embedding", "train", "NVIDIA H200")
    shares = {one["device"]: one["against_best"]["value"] for one in found["standings"]}
    assert shares == pytest.approx({"NVIDIA H200": 1.0, "Intel Xeon": 140.0 / 2000.0}, rel=0.05), "each at its best"
    (model,) = found["models"]
    alike = {one["point"]["batch_size"]: one["ratios"]["Intel Xeon"] for one in model["relative"]}
    rates = {size: (100.0 + 20 * place) / (1000.0 + 500 * place) for place, size in enumerate(SIZES)}
    assert alike == pytest.approx(rates, rel=0.05), "at equal settings"
    text = " ".join(stored.type("torchstone recommend --family embedding --full").out.split())
    assert text.startswith("Recommended hardware by speed for embedding, training: NVIDIA H200, ")
    best = r"hf:bert: NVIDIA H200 [\d.,]+ images/s ±[\d.]+ % with (batch_size 32, .*?); Intel Xeon .*? with \1 "
    assert re.search(best, text)
    assert "at equal settings" not in text, "the best of both are equal settings"


@pytest.fixture(scope="module")
def cut(desk):
    """One run of a model, cut along batch size, optimizer and precision, and a model five times as large."""
    points = {
        (8, "adamw", "fp32"): 100.0, (16, "adamw", "fp32"): 150.0, (32, "adamw", "fp32"): 200.0,
        (8, "adamw", "bf16"): 180.0, (8, "sgd", "fp32"): 125.0,
    }  # fmt: skip
    cases = [(case(batch_size=b, optimizer=o, precision=p), rate) for (b, o, p), rate in points.items()]
    large = case(batch_size=8, optimizer="adamw", precision="fp32", model="hf:large")
    held = {one.case_id: 1e9 * (1 + place) for place, (one, _) in enumerate(cases)}
    run = a_stored_run(5, [*cases, (large, 20.0)], machine(host="fifth"), memory=held, name="cut")
    sizes = {large.case_id: 50_000_000}
    trials = [
        msgspec.structs.replace(
            one, facts=msgspec.structs.replace(one.facts, parameters=sizes.get(one.case_id, 10_000_000))
        )
        for one in run.trials
    ]
    store(desk.folder / "outputs", [msgspec.structs.replace(run, trials=tuple(trials))])
    document = desk.claimed("S3-42").document
    return document, " ".join(desk.claimed("S3-56").out.split())


def lines(document, by, model="hf:bert"):
    (one,) = [one for one in document["performance_analysis"] if one["by"] == by and one["model"] == model]
    return {line["value"]: line for line in one["lines"]}


def figure(document, line, name):
    """The mean of the trials, by hand: geometric, as rates are."""
    (one,) = [one for one in document["cases"] if one["case_id"] == line["case_id"]]
    return geometric_mean([trial["figures"]["values"][name] for trial in one["trials"]])


def test_s3_42_and_56_time_memory_and_throughput_over_batch_sizes(cut):
    document, text = cut
    found = lines(document, "batch_size")
    assert list(found) == [8, 16, 32]
    first = figure(document, found[8], "throughput")
    for size, line in found.items():
        rate = figure(document, line, "throughput")
        assert line["throughput"] == pytest.approx(rate)
        assert line["time_per_item_s"] == pytest.approx(1 / rate)
        assert line["throughput_ratio"] == pytest.approx(rate / first)
        assert line["efficiency"] == pytest.approx(rate / first / (size / 8))
    assert [line["memory_ratio"] for line in found.values()] == pytest.approx([1.0, 2.0, 3.0])
    assert "[BY BATCH SIZE] train hf:bert on cpu" in text
    assert "from batch size 8 to 32 (4 times the items a step) throughput is " in text


def test_s3_44_speed_and_memory_by_optimizer(cut):
    document, text = cut
    found = lines(document, "optimizer")
    rates = {name: figure(document, line, "throughput") for name, line in found.items()}
    base = next(iter(found))
    assert {n: line["throughput_ratio"] for n, line in found.items()} == pytest.approx(
        {n: rate / rates[base] for n, rate in rates.items()}
    )
    assert {n: line["memory_bytes"] for n, line in found.items()} == pytest.approx({"adamw": 1e9, "sgd": 5e9})
    assert "[BY OPTIMIZER] train hf:bert on cpu" in text


def test_s3_45_speed_up_and_memory_of_mixed_precision(cut):
    document, text = cut
    found = lines(document, "precision")
    assert list(found) == ["fp32", "bf16"]
    ratio = figure(document, found["bf16"], "throughput") / figure(document, found["fp32"], "throughput")
    assert found["bf16"]["throughput_ratio"] == pytest.approx(ratio)
    assert found["bf16"]["memory_ratio"] == pytest.approx(4.0)
    assert "[MIXED PRECISION] train hf:bert on cpu" in text
    assert f"bf16 is {ratio:.3g} times as fast as fp32, in 4 times the memory" in text


def test_s3_56_over_model_sizes(cut):
    document, text = cut
    (found,) = [one for one in document["performance_analysis"] if one["by"] == "model"]
    small, large = found["lines"]
    assert (small["parameters"], large["parameters"]) == (1e7, 5e7)
    slower = figure(document, small, "throughput") / figure(document, large, "throughput")
    assert f"hf:large has 5 times the parameters of hf:bert and takes {slower:.3g} times as long" in text
    assert "[BY MODEL SIZE]" in text


def test_s3_34_and_25_mean_and_highest_memory_of_a_device(desk):
    one = case("cuda", batch_size=8)
    held = [2e9, 3e9, 4e9, 3e9, 3e9, 3e9, 3e9, 3e9]
    series = [Series("device_memory_used_bytes", "nvml", AT_S, tuple(held), "cuda:0")]
    run = a_stored_run(3, [(one, 1000.0)], machine("cuda", host="third"), name="held")
    trial = a_trial([0.01] * 8, case_id=one.case_id, series=series, facts={"device": "cuda:0"})
    store(desk.folder / "outputs", [type(run)(run.head, (trial,), (), run.end)])
    (found,) = desk.claimed("S3-34").document["cases"]
    assert found["estimates"]["device_memory_used_bytes"]["value"] == 4e9
    assert found["estimates"]["mean_device_memory_used_bytes"]["value"] == pytest.approx(sum(held) / len(held))
    assert "mean_device_memory_used_bytes" in desk.type("torchstone show held --full").out


def test_s3_52_throttling_is_told(desk):
    one = case("cuda", batch_size=8)
    series = [Series("device_throttled", "nvml", AT_S, (0.0, 1.0) * 4, "cuda:0")]
    run = a_stored_run(4, [(one, 1000.0)], machine("cuda", host="fourth"), name="hot")
    trial = a_trial([0.01] * 8, case_id=one.case_id, series=series, facts={"device": "cuda:0"})
    store(desk.folder / "outputs", [type(run)(run.head, (trial,), (), run.end)])
    text = " ".join(desk.type("torchstone check hot").out.split())
    assert "was throttled by temperature or power: up to 50 % of the readings" in text


def test_s3_60_large_variance_is_told_with_what_the_document_advises(desk):
    """More iterations where trials lie apart, more warm-up where steps became faster, quiet where others were busy."""
    one = a_case({"batch_size": 8})
    write_record(a_gpu_run([0.002, 0.01, 0.05], one, name="apart"), desk.folder / "outputs")
    text = " ".join(desk.type("torchstone show apart").out.split())
    assert "3 trials differ too much for an interval (wider than ±50 %): --trials 10" in text
    assert " 800.0 160 … 4,000 " in text, "the middle trial, and the range in place of an interval"
    steps_s = [0.02 - 0.0001 * place for place in range(100)]
    ends_s = 2.0 + sum(steps_s)
    cpu_s = {"host_busy_s": 18.0, "process_cpu_s": 9.0}  # in 9 s: one core beside the trial's
    busy = [Series(metric, "host", (0.0, 9.0), (0.0, spent_s)) for metric, spent_s in cpu_s.items()]
    faster = {"step_time_s": steps_s, "window_time_s": [sum(steps_s)], "window_span_s": [2.0, ends_s]}
    write_record(
        a_gpu_run([0.015] * 3, one, name="unsettled", steps=100, steady=faster, series=busy), desk.folder / "outputs"
    )
    text = " ".join(desk.type("torchstone check unsettled").out.split())
    assert re.search(r"drift: .* became \d+ % faster\W.*--warmup \d+", text)
    assert re.search(r"neighbours: .* used up to 1 CPU cores in .*\W+stop them, and measure again", text)


def test_s3_48_the_seeds_own_results_are_taken_in_and_found_again(desk):
    name = "training_benchmark_results_20250302_123456.json"
    shutil.copy(PRINTED, desk.folder / name)
    desk.type(f"torchstone import {name} --output-dir imported")
    (case_,) = desk.type("torchstone show latest --json --output-dir imported").document["cases"]
    printed = json.loads(PRINTED.read_text(encoding="utf-8"))["benchmarks"]["embedding"]["bert-base-uncased"]["cuda"]
    result = printed["training_results"]["batch_1_seq_32_lr_1e-05_opt_adam_accum_1"]
    assert (case_["workload"]["family"], case_["placement"]["device"]) == ("embedding", "cuda")
    point = case_["configuration"]
    assert (point["batch_size"], point["sequence_length"], point["learning_rate"]) == (1, 32, 1e-5)
    assert (point["optimizer"], point["grad_accumulation"], point["precision"]) == ("adam", 1, "fp16")
    told = {name: estimate["value"] for name, estimate in case_["estimates"].items()}
    for word in ("min", "max", "mean", "std"):
        assert told[f"step_time_{word}"] == result["training_time"][word]
        assert told[f"loss_{word}"] == result["loss"][word]
    assert told["throughput"] == result["throughput"]
    assert told["loss_convergence_rate"] == result["loss_convergence_rate"]
    assert told["model_load_time_s"] == printed["model_load_time"]
    assert told["peak_allocated_bytes"] == pytest.approx(result["memory_usage"]["max"] * 2**20)
    assert told["mean_allocated_bytes"] == pytest.approx(result["memory_usage"]["mean"] * 2**20)


def test_s3_55_what_bounds_a_case_follows_from_the_peaks_by_hand(desk):
    """The processor does 200 GFLOP/s and 30 GB/s: 1.6 GFLOP are 0.8 of a step of 10 ms, 150 MB half of it."""
    known = a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"),), peaks=(peaks_of(),))
    wanted = {
        "compute": {"flops": [1.6e9], "traffic_bytes": [1.5e8]},
        "memory": {"flops": [1e7], "traffic_bytes": [2.4e8]},
    }
    for number, (what, setup) in enumerate(wanted.items()):
        run = a_gpu_run(
            [0.01] * 3, a_case({"batch_size": 8, "precision": "fp32"}), machine=known, name=f"bound-{what}",
            setup=setup, facts={"threads_in_effect": 2}, minutes=60.0 * number,
        )  # fmt: skip
        write_record(run, desk.folder / "outputs")
    text = desk.claimed("S3-55").out
    assert "compute bounds 1 of 1 cases" in text[text.index("[BOTTLENECK]") :]
    (case_,) = desk.type("torchstone show bound-compute --json").document["cases"]
    assert case_["bound"]["shares"]["compute"] == pytest.approx(1.6e9 / 2e11 / 0.01)
    assert case_["bound"]["shares"]["memory"] == pytest.approx(1.5e8 / 3e10 / 0.01)
    assert "memory bounds 1 of 1 cases" in desk.type("torchstone show bound-memory --full").out


def test_s3_74_efficiency_over_hardware_is_drawn(desk):
    for card, folder, step_s in (("NVIDIA A100-SXM4-80GB", "a100", 0.02), ("NVIDIA H100 80GB HBM3", "h100", 0.01)):
        run = a_gpu_run([step_s] * 3, case("cuda", batch_size=8), machine=a_gpu(card), setup={"flops": [5e10]})
        write_record(run, desk.folder / folder)
    desk.claimed("S3-74")
    (picture,) = (desk.folder / "visualizations").rglob("comparison_efficiency.svg")
    words = " ".join(element.text or "" for element in ET.parse(picture).iter())
    assert "share of the peak rate" in words
