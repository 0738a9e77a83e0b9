"""Seed S3: a file in the document's words, run once, and what its user looks for in answer, report and files."""

import csv
import json
import platform
import re
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

import numpy
import pytest
import torch

PRINTED = Path(__file__).parent / "printed" / "s3_training_config.json"
# The document's file with a small model of ours, and few values.
SMALL = {
    **json.loads(PRINTED.read_text(encoding="utf-8")),
    "model_families": {"vision": ["builtin:cnn"]}, "data": "digits", "axes": {"image_size": 8, "threads": 1},
    "batch_sizes": [4], "learning_rates": [1e-3, 1e-2], "optimizers": ["Adam"], "gradient_accumulation_steps": [2],
    "warmup_iterations": 2, "training_iterations": 12,
}  # fmt: skip
del SMALL["sequence_lengths"]  # of no model of images
HERE = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


@pytest.fixture(scope="module")
def run(desk):
    desk.write("training_config.json", json.dumps(SMALL))
    return desk.claimed("S3-12").document


@pytest.fixture(scope="module")
def taken(run):
    """The cases whose device is here, one trial after the other."""
    return [case for case in run["cases"] if HERE[case["placement"]["device"]]]


def trials(cases):
    return [trial for case in cases for trial in case["trials"]]


def values(cases):
    return [trial["figures"]["values"] for trial in trials(cases)]


@pytest.fixture(scope="module")
def raw(desk, run):
    """The rows of `export --rows samples`: metric → trial → values in order."""
    path = desk.folder / desk.claimed("S3-32").out.strip()
    found: dict[str, dict[str, list[float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["stage"] in ("steady", "setup", ""):
                found.setdefault(row["metric"], {}).setdefault(row["trial_id"], []).append(float(row["value"]))
    return found


def report(desk, feature):
    return desk.claimed(feature).out


def test_s3_12_what_is_here_is_measured_and_the_rest_is_unsupported(run, taken):
    assert {t["outcome"]["status"] for t in trials(taken)} == {"ok"}
    absent = [case for case in run["cases"] if case not in taken]
    assert {case["placement"]["device"] for case in absent} == {kind for kind, here in HERE.items() if not here}
    assert len(absent) == 4 * sum(not here for here in HERE.values()), "a case for each that was asked for"
    for case in absent:
        (trial,) = case["trials"]
        kind = case["placement"]["device"]
        assert trial["outcome"]["status"] == "unsupported"
        assert trial["outcome"]["message"].startswith(f"device {kind} not found: ")
        assert case["estimates"] == {}
        assert case["verdict"] == "INVALID"


def test_s3_12_a_device_that_is_absent_is_told_once_and_not_as_a_table_of_dashes(desk, run):
    text = desk.type("torchstone show training --output-dir benchmark_results").out
    for kind, here in HERE.items():
        word = "cuda:0" if kind == "cuda" else kind
        assert text.count(f"{word}: 4 cases unsupported, device {kind} not found: ") == (not here)
        assert (f"train builtin:cnn on {word}" in text) == here


def test_s3_10_11_and_48_a_json_file_in_and_documents_in_the_folder_that_was_named(desk, run):
    folder = desk.folder / "benchmark_results"
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("benchmark_*.json")]
    assert run["run_id"] in [one["head"]["run_id"] for one in documents]
    assert not (desk.folder / "outputs").exists()
    assert run["run_id"] in [one["run_id"] for one in desk.claimed("S3-48").document["runs"]]
    shown = desk.type(f"torchstone show {run['run_id']} --json --output-dir benchmark_results").document
    assert shown["cases"] == run["cases"], "what is stored is found again whole"


def test_s3_04_to_07_and_18_to_22_every_value_of_every_axis(taken):
    points = {
        tuple(case["configuration"][axis] for axis in ("batch_size", "learning_rate", "precision")) for case in taken
    }
    assert points == {(4, rate, word) for rate in (1e-3, 1e-2) for word in ("fp32", "bf16")}
    assert {(c["configuration"]["optimizer"], c["configuration"]["grad_accumulation"]) for c in taken} == {("adam", 2)}
    assert {t["facts"]["effective_batch_size"] for t in trials(taken)} == {8}


def test_s3_08_and_62_profiling_leaves_a_trace_of_each_case(desk, run, taken):
    traces = list((desk.folder / "benchmark_results" / "traces").glob("*.json"))
    assert {path.stem for path in traces} == {f"{run['run_id']}_{case['case_id']}" for case in taken}
    names = {event.get("name") for event in json.loads(traces[0].read_text(encoding="utf-8"))["traceEvents"]}
    assert {"step", "data", "transfer", "forward", "backward", "optimizer"} <= names


def test_s3_09_and_63_debug_names_every_stage_of_every_trial(desk, run, taken):
    lines = desk.claimed("S3-09").err
    for stage in ("building", "warm-up", "throughput", "anatomy"):
        seen = re.findall(rf"^ +[\d.]+ s  {stage}$", lines, re.MULTILINE)
        assert len(seen) >= len(trials(taken)), f"{stage}: {lines}"


def test_s3_13_to_16_times_memory_and_throughput_are_those_of_the_raw_values(taken, raw):
    for trial in trials(taken):
        one, name = trial["figures"]["values"], trial["trial_id"]
        steps, items = raw["step_time_s"][name], raw["items"][name]
        assert one["throughput"] == pytest.approx(sum(items) / sum(raw["window_time_s"][name]))
        assert one["model_load_time_s"] == raw["model_load_time_s"][name][0] > 0.0
        assert one["peak_rss_bytes"] == max(raw["peak_rss_bytes"][name] + raw["rss_bytes"][name]) > 1e7
        assert len(steps) == SMALL["training_iterations"]
        assert set(items) == {8.0}, "what is accumulated is one step"


def test_s3_32_to_34_least_most_mean_and_spread_by_hand(taken, raw):
    for trial in trials(taken):
        one, name = trial["figures"]["values"], trial["trial_id"]
        for figure, metric in (("step_time", "step_time_s"), ("loss", "loss")):
            each = raw[metric][name]
            told = [one[f"{figure}_{word}"] for word in ("min", "max", "mean", "std")]
            assert told == pytest.approx([min(each), max(each), fmean(each), stdev(each)])
        assert (one["loss_first"], one["loss_last"]) == (raw["loss"][name][0], raw["loss"][name][-1])
        assert one["mean_rss_bytes"] == pytest.approx(fmean(raw["rss_bytes"][name]))
        assert one["mean_rss_bytes"] <= one["peak_rss_bytes"]
        if trial["figures"]["values"].get("device_memory_used_bytes") is None:
            assert "mean_device_memory_used_bytes" not in one, "what nobody tells is absent"


def test_s3_17_the_rate_of_convergence_is_the_slope_of_ln_loss(taken, raw):
    for trial in trials(taken):
        losses = raw["loss"][trial["trial_id"]]
        settled = losses[len(losses) // 10 :]  # an optimizer's first steps are none of it
        slope = numpy.polyfit(range(len(settled)), numpy.log(settled), 1)[0]
        assert trial["figures"]["values"]["loss_convergence_rate"] == pytest.approx(slope)


def test_s3_25_the_memory_of_a_training_is_a_series_with_times(desk, taken):
    path = desk.folder / desk.claimed("S3-25").out.strip()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "rss_bytes"]
    assert {row["trial_id"] for row in rows} == {trial["trial_id"] for trial in trials(taken)}
    for trial in trials(taken):
        at_s = [float(row["at_s"]) for row in rows if row["trial_id"] == trial["trial_id"]]
        assert len(at_s) > 1
        assert all(a < b for a, b in pairwise(at_s))


def test_s3_24_what_suits_the_hardware_is_set_and_said(desk, taken):
    for trial in trials(taken):
        told = trial["facts"]["settings"]
        assert set(told) == {"threads", "channels_last", "fused", "sdpa"}
        assert all(setting["value"] and setting["reason"] for setting in told.values())
        assert trial["facts"]["fused_optimizer"] is True
    text = desk.claimed("S3-24").out
    assert re.search(r"^\[settings: .+\n( +.+\n)* +fused +\S+: ", text, re.MULTILINE)


def test_s3_27_and_28_when_and_on_what(run):
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", run["started_utc"])
    host, software = run["machine"]["host"], run["machine"]["software"]
    assert host["platform"] == platform.platform()
    assert "processor" in host
    assert software["python"] == platform.python_version()
    assert software["cuda"] == torch.version.cuda
    assert any(d["kind"] == "cuda" for d in run["machine"]["devices"]) == HERE["cuda"], "cuda_available"


def test_s3_29_to_31_and_35_a_case_says_what_it_is(taken):
    assert len({case["case_id"] for case in taken}) == len(taken) == 4
    for case in taken:
        assert (case["workload"]["family"], case["workload"]["model"]) == ("vision", "builtin:cnn")
        assert (case["placement"]["device"], case["placement"]["count"], case["placement"]["nodes"]) == ("cpu", 1, 1)
        assert case["configuration"]["precision"] in ("fp32", "bf16")
        assert {"throughput", "loss_convergence_rate", "model_load_time_s"} <= set(case["estimates"])
        assert [t["outcome"]["status"] for t in case["trials"]] == ["ok", "ok"]


def test_s3_50_trials_of_a_round_share_what_is_imported(taken):
    rounds = {(trial["number"], trial["facts"]["template"]) for trial in trials(taken)}
    assert len(rounds) == len({number for number, _ in rounds})


def test_s3_51_what_comes_first_is_taken_first_in_every_round(taken):
    ordered = sorted(
        (t["order"], t["number"], case["configuration"]["precision"]) for case in taken for t in case["trials"]
    )
    for number in (0, 1):
        assert [word for _, n, word in ordered if n == number] == ["bf16", "bf16", "fp32", "fp32"]


def test_s3_53_it_is_warmed_up_before_each_window(taken):
    assert all(t["facts"]["warmup_steps"] >= SMALL["warmup_iterations"] for t in trials(taken))


def test_s3_36_to_41_the_performance_summary_by_hand(desk, run, taken):
    summary = desk.claimed("S3-36").document["performance_summary"]
    assert [one["device"] for one in summary] == [kind for kind, here in HERE.items() if here][: len(summary)]
    one, cpu = summary[0], [case for case in taken if case["placement"]["device"] == "cpu"]

    def mean(figure, **which):
        return fmean(
            case["estimates"][figure]["value"] for case in cpu
            if all(case["configuration"][axis] == value for axis, value in which.items())
        )  # fmt: skip

    time, speed, loss = one["training_time"], one["throughput"], one["loss_convergence"]
    assert time["mean"] == pytest.approx(mean("step_time_mean"))
    assert time["by_batch_size"] == pytest.approx({"4": mean("step_time_mean")})
    assert time["by_optimizer"] == pytest.approx({"adam": mean("step_time_mean")})
    assert time["by_mixed_precision"] == pytest.approx(
        {"full_precision": mean("step_time_mean", precision="fp32"),
         "mixed_precision": mean("step_time_mean", precision="bf16")}
    )  # fmt: skip
    rates = [case["estimates"]["throughput"]["value"] for case in cpu]
    assert [speed[word] for word in ("min", "max", "mean")] == pytest.approx([min(rates), max(rates), fmean(rates)])
    falls = [case["estimates"]["loss_convergence_rate"]["value"] for case in cpu]
    assert [loss[word] for word in ("min", "max", "mean")] == pytest.approx([min(falls), max(falls), fmean(falls)])
    assert loss["by_learning_rate"] == pytest.approx(
        {word: mean("loss_convergence_rate", learning_rate=float(word)) for word in ("0.001", "0.01")}
    )
    for case in cpu:
        each = [t["figures"]["values"] for t in case["trials"]]
        assert time["min"] <= min(v["step_time_min"] for v in each) or time["min"] == pytest.approx(
            min(case["estimates"]["step_time_min"]["value"] for case in cpu)
        )


def test_s3_36_to_41_the_summary_stands_in_the_report_and_in_every_document(desk, run):
    text = desk.type("torchstone show training --full --output-dir benchmark_results").out
    block = text[text.index("[PERFORMANCE SUMMARY]") :]
    for word in ("time of a step", "throughput", "loss convergence, a step", "by mixed precision", "by learning rate"):
        assert word in block
    paths = (desk.folder / "benchmark_results").glob("benchmark_*.json")
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    (document,) = (one for one in documents if one["head"]["run_id"] == run["run_id"])
    assert document["performance_summary"] == run["performance_summary"]


def test_s3_43_too_few_steps_are_not_called_as_good(desk, run):
    (group,) = run["convergence"]
    assert group["learning_rates"]
    for rates in group["learning_rates"]:
        assert rates["tried"] == [1e-3, 1e-2]
        assert set(rates["as_good"]).isdisjoint(rates["cannot_tell"])
    text = " ".join(desk.claimed("S3-43").out.split())
    assert "convergence: builtin:cnn on cpu, data digits, batch_size 4" in text
    assert "learning rate with precision fp32: " in text


def test_s3_61_what_holds_a_step_up_is_said_with_its_share(desk, taken):
    """Where a phase is a large part of a step, a line says so: the share is that of the recorded phases."""
    told = re.findall(r"note: .*?(\w+) is (\d+) % of the step", desk.claimed("S3-61").out)
    assert told
    shares = set()
    for case in taken:
        step_s = case["estimates"]["anatomy_step_s"]["value"]
        for name in ("data", "transfer", "forward", "backward", "optimizer", "rest"):
            shares.add((name, round(100 * case["estimates"][f"phase_{name}_s"]["value"] / step_s)))
    assert {(name, int(share)) for name, share in told} <= shares


def test_s3_60_every_figure_has_its_interval(desk, taken):
    for case in taken:
        rate = case["estimates"]["throughput"]
        own = [t["figures"]["values"]["throughput"] for t in case["trials"]]
        assert min(own) <= rate["value"] <= max(own)
        assert rate["low"] < rate["value"] < rate["high"]
    assert "± half the 95 % interval" in " ".join(desk.claimed("S3-60").out.split())


def test_s3_68_and_69_training_and_inference_of_a_folder_in_one_report(desk, run):
    page, text, picture = sorted(desk.folder / line for line in desk.claimed("S3-69").out.split())
    assert [one.suffix for one in (page, text, picture)] == [".html", ".md", ".svg"]
    told = text.read_text(encoding="utf-8")
    assert told.startswith("# Training and inference of cnn")
    for purpose in ("training", "inference"):
        assert re.search(rf"^\|(?=.* cnn \|).* {purpose} \|", told, re.MULTILINE)
    assert "Training: training (" in told
    assert "Inference: inference (" in told
    said = desk.type(f"torchstone verify {page.relative_to(desk.folder)}").out
    assert "every figure and verdict follows from its record (2 runs, " in " ".join(said.split())
