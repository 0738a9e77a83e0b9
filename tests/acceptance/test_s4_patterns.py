"""Seed 4's four patterns: planted, or stored as another machine measured them; and what is said of them, by hand."""

import json
import re
from statistics import geometric_mean

import pytest
from feature_rows import row_of
from stored import a_stored_run, case, machine, store

# Seconds of a step: 20 ms whatever its size and 0.5 ms an item, but 128 items cost far more than 32.
STEP_S = {8: 0.024, 16: 0.028, 32: 0.036, 128: 0.240}
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


@pytest.fixture(scope="module")
def planted(desk):
    desk.write("planted.py", PLANTED)
    return desk.claimed("S4-58").document


def rates(run):
    return {
        one["configuration"]["batch_size"]: geometric_mean(t["figures"]["values"]["throughput"] for t in one["trials"])
        for one in run["cases"]
    }


@pytest.mark.long
def test_s4_58_what_a_step_costs_whatever_its_size_is_found_and_told_with_remedies(planted):
    (low,) = [one for one in planted["advice"] if one["seen"].startswith("at batch_size 8, ")]
    share, overhead = re.match(
        r"at batch_size 8, throughput is (\d+) % of the top: a step costs about (\d+) ms whatever its size", low["seen"]
    ).groups()  # fmt: skip
    measured = rates(planted)
    assert int(share) == pytest.approx(100 * measured[8] / measured[32], abs=1)
    assert int(overhead) == pytest.approx(20, abs=5)
    assert low["causes"] == ["fixed overhead of a step", "low occupancy", "launch overhead"]
    assert low["remedies"][0] == "batch_size=32"
    assert any("fewer synchronisations" in one for one in low["remedies"])


@pytest.mark.long
def test_s4_59_and_60_the_optimum_and_the_decline_are_named_with_what_to_do(desk, planted):
    said = {one["seen"]: one for one in planted["advice"]}
    optimum = said["throughput is highest at batch_size 32, between the smallest and the largest"]
    assert optimum["remedies"] == [
        "batch_size=32 for production", "for a larger effective batch, batch_size=32 with grad_accumulation",
    ]  # fmt: skip
    (decline,) = [one for seen, one in said.items() if seen.startswith("beyond it, throughput falls: by ")]
    lost = int(re.search(r"by (\d+) % at batch_size 128", decline["seen"])[1])
    measured = rates(planted)
    assert lost == pytest.approx(100 * (1 - measured[128] / measured[32]), abs=1)
    assert {"memory pressure", "swapping", "access patterns", "growth of the backward pass"} == set(decline["causes"])
    assert decline["remedies"] == [
        "grad_accumulation instead of a larger batch", "precision=bf16", "gradient_checkpointing=true",
        "another architecture",
    ]  # fmt: skip
    shown = " ".join(desk.claimed("S4-59").out.split())
    assert "throughput is highest at batch_size 32, between the smallest and the largest" in shown


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
    store(desk.folder / "outputs", made)
    return desk


def test_s4_61_a_run_on_both_says_how_many_times_as_fast_with_its_interval(elsewhere):
    run = elsewhere.type("torchstone show large --json").document
    (said,) = [one for one in run["advice"] if one["about"] == "device"]
    told = re.findall(r"([\d.]+) \[([\d.]+), ([\d.]+)\] times as fast at batch_size (\d+)", said["seen"])
    by_hand = {}
    for one in run["cases"]:
        rate = geometric_mean(t["figures"]["values"]["throughput"] for t in one["trials"])
        by_hand[one["placement"]["device"], one["configuration"]["batch_size"]] = rate
    assert [int(size) for *_, size in told] == list(MUCH)
    for value, low, high, size in told:
        assert float(value) == pytest.approx(by_hand["cuda", int(size)] / by_hand["cpu", int(size)], rel=0.01)
        assert float(low) <= float(value) <= float(high)
    assert "note: train large: cuda:0 beside the CPU: " in elsewhere.type("torchstone show large").out


def test_s4_61_a_card_that_gains_little_is_told_with_what_to_do(elsewhere):
    shown = " ".join(elsewhere.claimed("S4-61").out.split())
    assert "cuda:0 beside the CPU: " in shown
    assert "little for an accelerator" in shown
    (page,) = (elsewhere.folder / "outputs" / "diagnostics").rglob("performance_report.md")
    text = page.read_text(encoding="utf-8")
    for remedy in (
        "pin_memory",
        "num_workers",
        "CUDA graphs",
        "libraries optimized",
        "the CPU, for a model that small",
    ):
        assert remedy in text, remedy
    assert (page.parent / "bottleneck_report.md").read_text(encoding="utf-8").startswith("# Bottleneck report: small\n")


def test_s4_61_the_store_knows_which_device_is_faster(elsewhere):
    told = json.loads(elsewhere.type("torchstone recommend --model large --json").out)
    (hardware,) = told["hardware"]
    assert hardware["recommended"] == "NVIDIA H200"
    against = {one["device"]: one["against_best"] for one in hardware["standings"]}
    assert against["Intel Xeon"] == pytest.approx(160.0 / 2400.0, rel=0.02), "each at the best of its settings"


def test_what_is_typed_for_a_pattern_is_what_its_user_would_type():
    assert row_of("S4-58").typed[0].startswith("torchstone run --task train --model py:planted.py:load ")
