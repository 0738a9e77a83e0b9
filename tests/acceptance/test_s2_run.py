"""Seed S2's bench, typed: its YAML as printed, its flags, its HDF5 file; the table, its numbers, and what runs out."""

import csv
import json
import math
import re
from collections import Counter
from statistics import fmean, geometric_mean, median

import pytest
from acceptance.table_columns import number, under
from build import a_machine
from ruamel.yaml import YAML
from seed2_files import CONFIG, laid_out
from stored import CARD, PROCESSOR

from torchstone.config.recipe_files import load_request
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import Inspected
from torchstone.execution.plan import place, sketch

PARTS = ("data", "transfer", "forward", "backward", "optimizer", "rest")
DATA_ITEMS = 160
ELSEWHERE = (
    "torchstone run elsewhere.yaml --axis threads=1 --batch-sizes 2 --trials 1 --steps 2 --no-phases "
    "--warmup-budget 50ms --json"
)


@pytest.fixture(scope="module")
def bench(desk):
    laid_out(desk.folder)
    desk.write("elsewhere.yaml", "task: infer\nmodel: builtin:mlp\naxes: {image_size: 8}\ndevice: xpu\n")
    return desk


@pytest.fixture(scope="module")
def said(bench):
    return bench.claimed("S2-01")


@pytest.fixture(scope="module")
def record(bench, said):
    """The record's lines, read as JSON and by nothing of torchstone."""
    lines = _lines(bench, said)
    found = {kind: [line for line in lines if line["record"] == kind] for kind in ("head", "trial", "end")}
    return {**found, "ok": [trial for trial in found["trial"] if trial["outcome"]["status"] == "ok"]}


@pytest.fixture(scope="module")
def shown(bench, record):
    return bench.type(f"torchstone show {record['head'][0]['run_id']} --json").document


def _lines(bench, done):
    shown = re.search(r"torchstone show (\S+) --full", " ".join(done.out.split()))
    assert shown
    (path,) = bench.folder.rglob(f"records/{shown[1]}.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_s2_07_to_11_the_printed_file_asks_for_every_configuration_it_names(bench):
    named = YAML(typ="safe", pure=True).load((bench.folder / CONFIG).read_text(encoding="utf-8"))["benchmark"]
    request = load_request(bench.folder / CONFIG, "builtin:denoiser-small")
    (one,) = request.workloads
    points = sketch(one).configurations
    assert len(points) == len(named["batch_sizes"]) * len(named["num_workers_options"]) * 2 * 2 == 336
    for axis, key in (("batch_size", "batch_sizes"), ("num_workers", "num_workers_options")):
        assert sorted({int(point[axis] or 0) for point in points}) == named[key]
    assert {point["precision"] for point in points} == {"fp32", "bf16"}
    assert {point["pin_memory"] for point in points} == {False, True}
    assert (one.task, request.procedure.iterations) == ("train", named["steps_per_test"])


def test_s2_01_to_03_and_08_flags_win_over_the_file_and_the_model_stands_beside_it(record):
    (head,) = record["head"]
    cases = head["plan"]["cases"]
    assert Counter(case["configuration"]["batch_size"] for case in cases) == {2: 4, 4: 2, 8: 2}
    assert {case["configuration"]["num_workers"] for case in cases} == {0}, "six of the file, one of the flag"
    assert {case["workload"]["model"] for case in cases} == {"builtin:denoiser-small"}
    assert {case["workload"]["data"] for case in cases} == {"hdf5:data.h5"}, "a bare .h5, as the seed types it"
    assert {case["placement"]["device"] for case in cases} == {"cpu"}


def test_s2_05_and_09_to_11_steps_of_the_flag_and_formats_of_the_file(record):
    pairs = {
        (c["configuration"]["precision"], c["configuration"]["pin_memory"]) for c in record["head"][0]["plan"]["cases"]
    }
    assert pairs == {(p, pinned) for p in ("fp32", "bf16") for pinned in (False, True)}, "S2-10, S2-11"
    for trial in record["ok"]:
        assert len(_raw(trial, "step_time_s")) == 20, "--steps 20 wins over steps_per_test: 10"


@pytest.mark.long
def test_s2_06_each_word_of_device_means_what_it_says_and_wins_over_the_file(bench):
    devices = bench.type("torchstone machine --json").document["machine"]["devices"]
    kinds = [device["kind"] for device in devices]
    first = next((kind for kind in kinds if kind != "cpu"), "cpu")
    for word, kind in (("cpu", "cpu"), ("auto", first)):
        assert _devices(bench.type(f"{ELSEWHERE} --device {word}")) == {kind}, "the file says xpu"
    for word in ("xpu", "cuda"):
        if word not in kinds:
            line = ELSEWHERE if word == "xpu" else f"{ELSEWHERE} --device {word}"
            absent = bench.type(line, code=2).err
            assert absent.startswith(f"torchstone: device {word} not found: ")
            assert len(absent.splitlines()) == 1
    head, *_ = _lines(bench, bench.claimed("S2-06"))
    assert {case["placement"]["device"] for case in head["plan"]["cases"]} == {"cpu"}


def _devices(done):
    return {case["placement"]["device"] for case in done.document["cases"] if case["trials"]}


def test_s2_06_where_there_is_a_card_auto_takes_it_and_cpu_does_not():
    there, both = Inspected((PROCESSOR, CARD), {}, {}), a_machine(devices=(PROCESSOR, CARD))
    words = {word: place(word, there, both) for word in ("auto", "cpu", "cuda", "cuda:0")}
    assert words == {"cpu": Placement("cpu", 0), **dict.fromkeys(("auto", "cuda", "cuda:0"), Placement("cuda", 0))}
    alone = a_machine(devices=(PROCESSOR,))
    assert place("auto", Inspected((PROCESSOR,), {}, {}), alone) == Placement("cpu", 0)


def test_s2_08_a_file_without_a_model_says_what_to_add(bench):
    done = bench.type(f"torchstone run --config {CONFIG} --data-path data.h5", code=2)
    assert done.err == (
        f"torchstone: {CONFIG}:1:1: has no model: add --model NAME, or `model` or `model_families` in the file\n"
    )


def test_s2_12_every_configuration_is_tested_in_one_command(record):
    taken = Counter(trial["case_id"] for trial in record["trial"])
    assert set(taken.values()) == {3}
    pinned = {case["configuration"]["pin_memory"] for case in record["head"][0]["plan"]["cases"]}
    assert pinned == {False, True}
    assert len(taken) == 2 * len({trial["case_id"] for trial in record["ok"]}) == 8
    lost = [trial["outcome"] for trial in record["trial"] if trial not in record["ok"]]
    assert all("pinning needs an accelerator" in outcome["message"] for outcome in lost), "on a CPU; the rest goes on"
    assert record["end"][0]["status"] == "done"


def _raw(trial, metric, phase=None):
    steady = [m for m in trial["measurements"] if m["metric"] == metric and m["stage"] == "steady"]
    return [value for m in steady if m.get("phase") == phase for value in m["values"]]


def test_s2_15_to_19_and_22_phases_and_throughput_by_hand(record, shown):
    cases = {case["case_id"]: case for case in shown["cases"]}
    for trial in record["ok"]:
        case = cases[trial["case_id"]]
        (got,) = [t["figures"]["values"] for t in case["trials"] if t["trial_id"] == trial["trial_id"]]
        parts = {part: fmean(_raw(trial, "phase_time_s", part)) for part in PARTS}
        assert all(seconds > 0 for part, seconds in parts.items() if part != "transfer"), parts
        for part, seconds in parts.items():
            assert got[f"phase_{part}_s"] == pytest.approx(seconds, rel=0.35), "means, of steps weighed alike"
        assert got["anatomy_step_s"] == pytest.approx(sum(got[f"phase_{part}_s"] for part in PARTS))
        items = sum(_raw(trial, "items"))
        assert items == 20 * case["configuration"]["batch_size"]
        assert got["throughput"] == pytest.approx(items / sum(_raw(trial, "window_time_s")))
        assert got["epoch_time_s"] == pytest.approx(DATA_ITEMS / got["throughput"])


def test_s2_22_the_column_holds_batch_over_step_of_every_case(said, record, shown):
    rates: dict[str, list[float]] = {}
    for trial in record["ok"]:
        rate = sum(_raw(trial, "items")) / sum(_raw(trial, "window_time_s"))
        rates.setdefault(trial["case_id"], []).append(rate)
    rows = zip(*(under(said.out, title) for title in ("size", "precision", "memory")), strict=True)
    told = dict(zip(rows, under(said.out, "sequences/s"), strict=True))
    assert len(told) == 8
    for case in shown["cases"]:
        row = tuple(str(case["configuration"][axis]) for axis in ("batch_size", "precision", "pin_memory"))
        if case["case_id"] in rates:
            found = rates[case["case_id"]]
            means = [geometric_mean(found)]
            if _is_wide(case["estimates"]["throughput"]):  # then the middle trial, unless that one is not wide
                means.append(math.exp(median(map(math.log, found))))
            assert any(number(told[row]) == pytest.approx(mean, rel=1e-3) for mean in means), row
        else:
            assert told[row] == "–", "what was not measured has no rate"


def test_s2_14_every_throughput_has_its_interval_in_the_table(said, shown):
    table = said.out[said.out.index("───") :].splitlines()[1:9]
    told = Counter(re.findall(r"±[\d.]+ %| … ", " ".join(f"{line} " for line in table)))
    for case in _measured(shown):
        rate = case["estimates"]["throughput"]
        assert min(_rates(case)) <= rate["value"] <= max(_rates(case))
        half = max(rate["high"] - rate["value"], rate["value"] - rate["low"]) / rate["value"]
        assert told[" … " if _is_wide(rate) else f"±{100 * half:.1f} %"] > 0, rate


def _is_wide(rate):
    return max(rate["high"] - rate["value"], rate["value"] - rate["low"]) > 0.5 * rate["value"]


def _rates(case):
    return [trial["figures"]["values"]["throughput"] for trial in case["trials"]]


def _measured(shown):
    return [case for case in shown["cases"] if "throughput" in case["estimates"]]


def test_s2_22_to_26_table_and_blocks_on_this_machine(bench, said, shown):
    head = " ".join(said.out[: said.out.index("───")].splitlines()[-2:])
    for title in (
        "batch",
        "precision",
        "pin",
        "data",
        "forward",
        "backward",
        "optimizer",
        "rest",
        "step",
        "throughput",
        "status",
    ):
        assert title in head
    if not said.out.startswith("Fastest: "):
        assert said.out.startswith(("Which is fastest is not known", "Only batch_size ")), "a busy machine: no choice"
        return
    known = [case["estimates"]["throughput"] for case in _measured(shown) if case["verdict"] == "VALID"]
    sharp = [e["value"] for e in known if not _is_wide(e)]
    full = bench.type(f"torchstone show {shown['run_id']} --full").out
    assert f"\n    {_four(max(sharp))} sequences/s" in full
    assert re.search(r"(?m)^  Recommended for training: .*\n    .*, memory [\d.]+ \wiB \([\d.]+ %\): safe\n", full)
    written = bench.type(f"torchstone export {shown['run_id']} --format csv").out.strip()
    with (bench.folder / written).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    judged = [row for row in rows if row["throughput"] and float(row["throughput"]) in sharp]
    near = [row for row in judged if float(row["throughput"]) >= 0.95 * max(sharp)]
    best = max(float(row["throughput"]) / (float(row["peak_rss_bytes"]) / 1e9) for row in near)
    told = re.search(r"(?m)^  Best efficiency: .*\n    ([\d.,]+) sequences/s per GB", full)
    assert told
    assert float(told[1].replace(",", "")) == pytest.approx(best, rel=0.01)


def _four(value):
    return f"{value:,.{max(0, 3 - len(str(int(value))) + 1)}f}"


def test_s2_13_27_32_and_45_a_loader_that_is_waited_for_and_a_batch_that_runs_out(bench):
    done = bench.claimed("S2-13")
    table = [line.split() for line in done.out[done.out.index("───") :].splitlines()[1:4]]
    assert [row[0] for row in table] == ["8", "16", "32"]
    assert [row[-1] for row in table][1:] == ["OOM", "skipped"], "what is larger is not tried"
    told = " ".join(done.out.split())
    assert "out_of_memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 27.85 GiB" in told
    assert "example batch" not in told, "what failed was fed like the others"
    told = " ".join(bench.type("torchstone show --full").out.split())
    note = told[told.index("note: data") :]
    assert re.search(r"note: data is \d\d % of the step \([\d.]+ ms[^)]*\); the step waits for the loader", note)
    assert "Causes: slow disk, too few workers, costly preprocessing. Try: " in note
    assert "a faster disk (SSD), or fewer, larger files; less preprocessing for each item" in note
