"""Seed 4's four patterns: planted, or stored as another machine measured them; and what is said of them, by hand."""

import json
import re
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest
from acceptance.feature_rows import row_of
from stored import a_stored_run, case, machine, store

# Seconds of a step: 40 ms whatever its size and 1 ms an item, but 128 items cost far more than 32.
STEP_S = {8: 0.048, 16: 0.056, 32: 0.072, 128: 0.450}
PLANTED = f"""
import time

import torch

STEP_S = {STEP_S}


class Planted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        time.sleep(STEP_S[len(x)])
        return self.layer(x)


def load():
    torch.manual_seed(0)
    example = torch.randn(128, 4), torch.randint(0, 2, (128,))
    return Planted(), example, torch.nn.functional.cross_entropy
"""
# Items/s at each batch size: on the CPU, and on a card that gains much or little.
MUCH = {8: (100.0, 400.0), 32: (150.0, 1500.0), 128: (160.0, 2400.0)}
LITTLE = {8: (1000.0, 700.0), 32: (1200.0, 1300.0)}
# Each is fastest in another number format.
FORMATS = {("cpu", "fp32"): 100.0, ("cpu", "bf16"): 40.0, ("cuda", "fp32"): 300.0, ("cuda", "bf16"): 800.0}


def rates(run):
    return {
        one["configuration"]["batch_size"]: geometric_mean(t["figures"]["values"]["throughput"] for t in one["trials"])
        for one in run["cases"]
    }


def texts(statements):
    return [one["text"] for one in statements]


def check_advice_is_as_measured(run):
    """Check what is said of the curve of a run against its rates."""
    measured, said = rates(run), {seen["id"]: (one, seen["values"]) for one in run["advice"] for seen in one["seen"]}
    low, values = said["low"]
    assert values["batch_size"] == 8
    assert values["share"] == pytest.approx(measured[8] / measured[32], abs=0.01)
    sizes = np.array([8, 16, 32])
    times_s = sizes / [measured[size] for size in sizes]
    (overhead_s, _), *_ = np.linalg.lstsq(np.array([1 / times_s, sizes / times_s]).T, np.ones(3), rcond=None)
    assert said["fixed_cost"][1]["fixed_s"] == pytest.approx(overhead_s, rel=0.05)
    assert texts(low["causes"]) == ["fixed overhead of a step", "low occupancy", "launch overhead"]
    assert texts(low["remedies"])[0] == "batch_size=32"
    assert "fewer_waits" in [one["id"] for one in low["remedies"]]
    optimum, values = said["highest_between"]
    assert values == {"batch_size": 32}
    assert texts(optimum["remedies"]) == [
        "batch_size=32 for production", "for a larger effective batch, batch_size=32 with grad_accumulation",
    ]  # fmt: skip
    decline, values = said["falls"]
    assert values["batch_size"] == 128
    assert values["share"] == pytest.approx(1 - measured[128] / measured[32], abs=0.01)
    usual = {"memory pressure", "swapping", "access patterns", "growth of the backward pass"}
    assert usual == set(texts(decline["causes"]))
    assert texts(decline["remedies"]) == [
        "a smaller batch, with grad_accumulation for the same effective batch", "precision=bf16",
        "gradient_checkpointing=true: less memory, a longer backward pass",
        "a smaller model (less depth or width), or another architecture",
    ]  # fmt: skip


@pytest.mark.long
def test_s4_58_to_60_planted_patterns_are_found_where_they_can_be_told_from_noise(desk):
    desk.write("planted.py", PLANTED)
    run = desk.type(row_of("S4-58").typed[0]).document
    if any(
        one["estimates"]["throughput"]["low"] < 0.7 * one["estimates"]["throughput"]["value"] for one in run["cases"]
    ):
        pytest.skip("the machine is too busy to tell batch sizes apart")
    check_advice_is_as_measured(run)


@pytest.fixture(scope="module")
def curve(desk):
    """A run with these steps, stored here."""
    axes: dict[str, Any] = {"grad_accumulation": 1, "gradient_checkpointing": False}
    cases = [(case("cpu", model="hf:curve", batch_size=size, **axes), size / step_s) for size, step_s in STEP_S.items()]
    store(desk.folder / "outputs", [a_stored_run(5, cases, machine("cpu", host="gpubox"), noise=0.005, name="curve")])
    return desk


def test_s4_58_to_60_each_pattern_has_its_figures_causes_and_remedies(curve):
    check_advice_is_as_measured(curve.type(f"{row_of('S4-58').typed[-1]} --json").document)


def test_s4_58_to_60_the_page_says_them(curve):
    shown = " ".join(curve.type(row_of("S4-59").typed[-1]).out.split())
    assert "note: at batch_size 8, throughput is 38 % of the top; a step costs about 40 ms whatever its size" in shown
    assert "note: throughput is highest at batch_size 32, between the smallest and the largest. Causes: " in shown
    assert "Try: batch_size=32 for production; for a larger effective batch" in shown
    assert "note: beyond it, throughput falls: by 36 % at batch_size 128" in shown


@pytest.fixture(scope="module")
def elsewhere(desk):
    """The runs of a machine with a card, stored here."""
    made = []
    for number, (name, sizes) in enumerate({"large": MUCH, "small": LITTLE}.items()):
        cases = [
            (case(kind, model=f"hf:{name}", batch_size=size), rate)
            for size, pair in sizes.items() for kind, rate in zip(("cpu", "cuda"), pair, strict=True)
        ]  # fmt: skip
        made.append(a_stored_run(number, cases, machine("cuda", host="gpubox"), noise=0.005, name=name))
    formats = [
        (case(kind, model="hf:formats", batch_size=8, precision=precision), rate)
        for (kind, precision), rate in FORMATS.items()
    ]
    made.append(a_stored_run(2, formats, machine("cuda", host="gpubox"), noise=0.005, name="formats"))
    store(desk.folder / "outputs", made)
    return desk


def test_s4_61_a_run_on_both_says_how_many_times_as_fast_with_its_interval(elsewhere):
    run = elsewhere.type("torchstone show large --json").document
    (said,) = [one for one in run["advice"] if one["about"] == "device"]
    told = [(*one["values"]["gain"], one["values"]["batch_size"]) for one in said["seen"][0]["values"]["gains"]]
    by_hand = {}
    for one in run["cases"]:
        rate = geometric_mean(t["figures"]["values"]["throughput"] for t in one["trials"])
        by_hand[one["placement"]["device"], one["configuration"]["batch_size"]] = rate
    assert [int(size) for *_, size in told] == list(MUCH)
    for value, low, high, size in told:
        assert float(value) == pytest.approx(by_hand["cuda", int(size)] / by_hand["cpu", int(size)], rel=0.01)
        assert float(low) <= float(value) <= float(high)
    assert "note: train large: cuda:0 beside the CPU: " in elsewhere.type("torchstone show large").out


def test_s4_61_settings_that_differ_are_told_with_the_ratio_at_equal_ones(elsewhere):
    shown = " ".join(elsewhere.type("torchstone show formats").out.split())
    fastest = re.search(r"cuda:0 beside the CPU: ([\d.]+) \[", shown)
    assert fastest
    assert float(fastest[1]) == pytest.approx(800.0 / 100.0, rel=0.02)
    differ = "compared at the fastest settings of each, which differ: precision bf16, on the CPU fp32 (batch_size 8)"
    assert f"{differ}; at equal settings: " in shown
    equal = re.findall(r"([\d.]+) \[[^]]+\] times as fast at batch_size 8 with precision (\w+)", shown)
    told = {precision: float(ratio) for ratio, precision in equal}
    assert told == pytest.approx({"bf16": 800.0 / 40.0, "fp32": 300.0 / 100.0}, rel=0.02)


def test_s4_61_a_card_that_gains_little_is_told_with_what_to_do(elsewhere):
    elsewhere.claimed("S4-61")
    (page,) = (elsewhere.folder / "outputs" / "diagnostics").rglob("performance_report.md")
    text = page.read_text(encoding="utf-8")
    assert "cuda:0 beside the CPU: " in text
    assert "little for an accelerator" in " ".join(text.split())
    for remedy in (
        "pin_memory",
        "num_workers",
        "CUDA graphs",
        "libraries optimized",
        "the CPU, for a model that small",
    ):
        assert remedy in text, remedy
    assert text.startswith("# Diagnosis of small\n")


def test_s4_61_the_store_knows_which_device_is_faster(elsewhere):
    told = json.loads(elsewhere.type("torchstone recommend --model large --json").out)
    (hardware,) = told["hardware"]
    assert hardware["recommended"] == "NVIDIA H200"
    against = {one["device"]: one["against_best"]["value"] for one in hardware["standings"]}
    assert against["Intel Xeon"] == pytest.approx(160.0 / 2400.0, rel=0.02), "each at the best of its settings"


def test_what_is_typed_for_a_pattern_is_what_its_user_would_type():
    assert row_of("S4-58").typed[0].startswith("torchstone run --task train --model py:planted.py:load ")
