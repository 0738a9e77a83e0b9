"""Seed 4's suite: DistilBERT's small twin on SST-2 over batch sizes, and what is made of the run; figures by hand."""

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acceptance.feature_rows import row_of
from sentences import SIZES, write_glue

from torchstone.cli import main
from torchstone.plugins import registry

SUITE = """
name: distilbert-suite
task: infer
model: hf:distilbert-tiny
data: sst2:SST-2
axes: {sequence_length: 16, threads: 1}
procedure: {trials: 2, warmup: 1, warmup_budget: 100ms, iterations: 8, telemetry: 50ms}
"""
BATCHES = [2, 4, 8]
METRICS = {"latency_s", "items", "window_time_s", "peak_rss_bytes", "rss_bytes"}


@pytest.fixture(scope="module")
def suite(desk) -> dict[str, Any]:
    desk.write("suite.yaml", SUITE)
    write_glue(desk.folder / "SST-2")
    found: dict[str, Any] = desk.claimed("S4-01").document
    return found


@pytest.fixture(scope="module")
def raw(desk, suite) -> dict[str, list[dict[str, str]]]:
    """The raw values of each trial, by its id."""
    path = Path(desk.type("torchstone export latest --rows samples --format csv").out.strip())
    found: dict[str, list[dict[str, str]]] = {}
    with (desk.folder / path).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] in METRICS:
                found.setdefault(row["trial_id"], []).append(row)
    return found


@pytest.fixture(scope="module")
def table(desk, suite) -> dict[int, dict[str, str]]:
    path = Path(desk.type("torchstone export latest --format csv").out.strip())
    with (desk.folder / path).open(encoding="utf-8", newline="") as file:
        return {int(row["batch_size"]): row for row in csv.DictReader(file)}


def steady(rows: list[dict[str, str]], metric: str, *, latency: bool) -> list[float]:
    return [
        float(row["value"]) for row in rows
        if row["metric"] == metric and row["stage"] == "steady" and (row["window"] == "latency") == latency
    ]  # fmt: skip


def trials(suite) -> list[dict[str, Any]]:
    return [trial for case in suite["cases"] for trial in case["trials"]]


def test_s4_01_latency_throughput_and_memory_are_those_of_the_raw_values(suite, raw):
    for trial in trials(suite):
        told, rows = trial["figures"]["values"], raw[trial["trial_id"]]
        times = steady(rows, "latency_s", latency=True)
        assert len(times) == 8
        assert told["latency_per_batch_p50_s"] == pytest.approx(np.median(times))
        assert told["latency_per_batch_mean_s"] == pytest.approx(np.mean(times))
        assert told["latency_per_batch_max_s"] == max(times)
        rate = sum(steady(rows, "items", latency=False)) / sum(steady(rows, "window_time_s", latency=False))
        assert told["throughput"] == pytest.approx(rate)
        held = [float(row["value"]) for row in rows if row["metric"] in ("peak_rss_bytes", "rss_bytes")]
        assert told["peak_rss_bytes"] == max(held)


def test_s4_01_and_03_the_page_shows_them_for_every_batch_size(desk, suite):
    shown = desk.type("torchstone show latest").out
    header = " ".join(shown[: shown.index("───")].split())
    for title in ("batch", "throughput", "latency", "peak"):
        assert title in header
    assert re.findall(r"^ +(\d+)  +\d", shown, re.MULTILINE)[:3] == [str(size) for size in BATCHES]


def test_s4_01_energy_is_that_of_the_counter_over_the_windows(tmp_path, monkeypatch, capfd):
    counter = tmp_path / "rapl" / "intel-rapl:0"
    counter.mkdir(parents=True)
    (counter / "name").write_text("package-0\n")
    (counter / "max_energy_range_uj").write_text("262143328850\n")
    (counter / "energy_uj").write_text("0\n")
    rapl: Any = registry.load("telemetry", "rapl")
    monkeypatch.setattr(rapl, "_root", tmp_path / "rapl")
    spent = iter(range(10**6, 10**12, 10**6))  # another joule each time it is read
    monkeypatch.setattr("torchstone.plugins.telemetry._system._Package.read", lambda package: next(spent))
    words = [
        "--model",
        "builtin:mlp",
        "--axis",
        "image_size=8",
        "--device",
        "cpu",
        "--batch-sizes",
        "4",
        "--trials",
        "1",
    ]
    assert main(["run", *words, "--budget", "400ms", "--telemetry", "10ms", "--json", "--quiet"]) == 0
    run = json.loads(capfd.readouterr().out)
    (trial,) = run["cases"][0]["trials"]
    (stored,) = (json.loads(line) for line in Path(run["record"]).read_text().splitlines() if trial["trial_id"] in line)
    (energy,) = (one for one in stored["series"] if one["metric"] == "package_energy_j")
    spans = [one["values"] for one in stored["measurements"] if one["metric"] == "window_span_s"]
    joules = sum(np.diff(np.interp(span, energy["at_s"], energy["values"]))[0] for span in spans)
    told = trial["figures"]["values"]
    assert joules > 5
    assert told["energy_j"] == pytest.approx(joules)
    assert told["energy_per_item_j"] == pytest.approx(joules / told["total_items"])
    assert main(["show", "latest", "--full"]) == 0
    shown = capfd.readouterr().out
    assert re.search(r"\[ENERGY\]\n  energy_j +[\d.,]+ k?J", shown), shown


def test_s4_02_the_accelerator_that_is_here_is_taken_and_else_the_cpu(desk, suite):
    devices = desk.type("torchstone machine --json").document["machine"]["devices"]
    first = next((one for one in devices if one["kind"] != "cpu"), devices[0])
    assert {case["placement"]["device"] for case in suite["cases"]} == {first["kind"]}
    assert "--device auto" in row_of("S4-02").typed[0]


def test_s4_03_every_batch_size_is_a_case_and_what_was_computed_has_that_size(suite, raw):
    assert [case["configuration"]["batch_size"] for case in suite["cases"]] == BATCHES
    for case in suite["cases"]:
        for trial in case["trials"]:
            sizes = steady(raw[trial["trial_id"]], "items", latency=True)
            assert set(sizes) == {case["configuration"]["batch_size"]}


def test_s4_05_sst_2_as_glue_hands_it_out_is_what_is_read(suite):
    for case in suite["cases"]:
        assert case["workload"]["data"] == "sst2:SST-2"
        assert case["workload"]["item"] == "sequence"
    assert {trial["facts"]["dataset_items"] for trial in trials(suite)} <= set(SIZES.values())


def test_s4_27_the_reference_is_the_mean_of_what_was_measured(desk, suite):
    assert "absolute_results.jsonl" in desk.claimed("S4-27").out
    text = (desk.folder / "outputs" / "absolute_results.jsonl").read_text(encoding="utf-8")
    lines = {line["case_id"]: line for line in map(json.loads, text.splitlines())}
    assert len(lines) == 3
    for case in suite["cases"]:
        one = lines[case["case_id"]]
        rates = [trial["figures"]["values"]["throughput"] for trial in case["trials"]]
        assert one["throughput"] == pytest.approx(np.exp(np.mean(np.log(rates))))
        assert one["throughput_low"] <= one["throughput"] <= one["throughput_high"]
        assert (one["batch_size"], one["runs"]) == (case["configuration"]["batch_size"], 1)
        assert (one["model"], one["task"], one["unit"]) == ("hf:distilbert-tiny", "infer", "items/s")


def test_s4_28_the_charts_of_the_batch_profile_draw_the_table(desk, suite, table):
    path = Path(desk.claimed("S4-28").out.strip())
    assert path.parts[-3:-1] == ("analysis", "batch_profile_charts")
    root = ET.parse(desk.folder / path).getroot()
    text = " ".join(root.itertext())
    for title in ("throughput, with", "latency of a batch, median", "step phases", "peak resident memory"):
        assert title in text, title
    labels = [element.get("aria-label") or "" for element in root.iter()]
    for unit, column, scale in (
        ("sequences/s", "throughput", 1.0), ("ms", "latency_per_batch_p50_s", 1e3), ("GiB", "peak_rss_bytes", 2.0**-30),
    ):  # fmt: skip
        for size in BATCHES:
            found = [
                float(told[1].replace(",", "")) for label in labels
                if f"batch size: {size};" in f"{label};" and (told := re.search(rf"(?:^|; ){unit}: ([\d.,]+)", label))
            ]  # fmt: skip
            assert any(value == pytest.approx(scale * float(table[size][column]), rel=1e-3) for value in found), column


def test_s4_29_the_folder_analysis_has_recommendation_and_history(desk, suite):
    desk.claimed("S4-29")
    folder = desk.folder / "outputs" / "analysis"
    page = (folder / "recommendation.md").read_text(encoding="utf-8")
    assert page.startswith("# Recommended, by speed\n")
    told = json.loads((folder / "recommendation.json").read_bytes())
    (settings,) = told["value"]["settings"]
    assert settings["model"] == "hf:distilbert-tiny"
    assert "hf:distilbert-tiny" in page
    root = ET.parse(folder / "history.svg").getroot()
    assert " ".join(root.itertext()).count("infer hf:distilbert-tiny, ") == 3


def test_s4_16_how_the_devices_compare_is_asked_of_the_store(desk, suite):
    told = " ".join(desk.claimed("S4-16").out.split())
    block, settings, _ = told.partition("settings by speed for infer hf:distilbert-tiny on ")
    assert settings
    assert block.startswith("No recommendation of hardware by speed for embedding, inference: one device alone ran")
    elsewhere = r"torchstone run --task infer --model hf:distilbert-tiny .*--device auto .*Then `torchstone import` its"
    assert re.search(elsewhere, " ".join(desk.type("torchstone recommend --model distilbert --full").out.split()))
    findings = [finding for case in suite["cases"] for finding in case["findings"]]
    doubted = {f["check"] for f in findings if f["severity"] != "info"} - {"few_trials", "few_samples"}
    assert {check for check in doubted if f"({check}): " not in block} == set(), "a disturbed run is told, and by what"
    assert ("SUSPECT" in block or "INVALID" in block) == bool(doubted)
